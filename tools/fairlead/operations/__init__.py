"""Changes or inspects a deployment: deploy, push, rotate, status, and the like."""
