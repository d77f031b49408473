"""The application file for spark-submit."""
