"""The OSS dialect: Alibaba Cloud's object storage protocol, without input and output."""
