"""What `torch.stack` makes of specs, alike or not."""
