"""What a kernel promises; standard library only."""
