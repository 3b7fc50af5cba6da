"""`ImplicitFeedback`: what users will choose, from what they chose."""
