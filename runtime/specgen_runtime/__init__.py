"""What generated code stands on: specs, environments, transforms, losses and modules on torch and tensordict."""
