"""From checked declarations to flat records of finished strings."""
