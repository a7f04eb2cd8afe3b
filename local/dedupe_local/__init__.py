"""The local fleet: the same manifest without Kubernetes, one worker process per partition."""
