"""The face of AWS Bedrock AgentCore Code Interpreter: its data and its control plane, as its clients send them."""
