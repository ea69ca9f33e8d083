"""Reaches into a pod with the official client: pods.py KUBECONFIG NAMESPACE POD."""
import sys

from kubernetes import client, config
from kubernetes.stream import portforward, stream

kubeconfig, namespace, pod = sys.argv[1:]
# The streams replace the method of the client that they are given, so each has its own.
execs = client.CoreV1Api(config.new_client_from_config(kubeconfig))
forwards = client.CoreV1Api(config.new_client_from_config(kubeconfig))

said = stream(
    execs.connect_get_namespaced_pod_exec, pod, namespace,
    command=["/testbox", "echo", "from", "inside"], stdin=False, stdout=True, stderr=True, tty=False,
)
if said.strip() != "from inside":
    sys.exit(f"exec: {said!r}")

forwarded = portforward(forwards.connect_get_namespaced_pod_portforward, pod, namespace, ports="8080")
connection = forwarded.socket(8080)
connection.setblocking(True)
connection.settimeout(30)
connection.sendall(b"GET /hostname HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n")
answer = b""
while True:
    piece = connection.recv(4096)
    if not piece:
        break
    answer += piece
if not answer.startswith(b"HTTP/1.1 200") or not answer.rstrip().endswith(pod.encode()):
    sys.exit(f"port-forward: {answer!r}, {forwarded.error(8080)}")
