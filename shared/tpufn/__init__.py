"""tpufn gets scarce Google Cloud TPUs and keeps them working."""

__version__ = "0.1.0"
