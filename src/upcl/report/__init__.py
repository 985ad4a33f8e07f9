"""What people look at: tables and progress in the terminal."""
