"""What tests of several folders share; helpers of one folder stay in it."""
