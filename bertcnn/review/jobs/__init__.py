"""Long work as processes of their own, which survive a restart."""
