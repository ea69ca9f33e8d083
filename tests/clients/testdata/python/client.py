"""Lists and watches with the official client: client.py KUBECONFIG NAMESPACE."""
import sys
import threading

from kubernetes import client, config, watch

kubeconfig, namespace = sys.argv[1:]
api = client.CoreV1Api(config.new_client_from_config(kubeconfig))


def config_map(name, value):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data={"key": value})


def expect(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got!r}, want {want!r}")


api.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
api.create_namespaced_config_map(namespace, config_map("first", "1"))

listed = api.list_namespaced_config_map(namespace, field_selector="metadata.name=first")
expect("list", [(m.metadata.namespace, m.metadata.name) for m in listed.items], [(namespace, "first")])
spaces = [n.metadata.name for n in api.list_namespace().items]
if namespace not in spaces or any("." in n for n in spaces):
    sys.exit(f"namespaces: {spaces}")


def write():
    api.create_namespaced_config_map(namespace, config_map("second", "1"))
    api.replace_namespaced_config_map("second", namespace, config_map("second", "2"))
    api.delete_namespaced_config_map("second", namespace)


writer = threading.Thread(target=write)
writer.start()
seen = []
watcher = watch.Watch()
for event in watcher.stream(
    api.list_namespaced_config_map,
    namespace,
    resource_version=listed.metadata.resource_version,
    timeout_seconds=60,
):
    meta = event["object"].metadata
    expect("namespace of an event", meta.namespace, namespace)
    if meta.name == "second":
        seen.append(event["type"])
    if event["type"] == "DELETED":
        watcher.stop()
writer.join()
expect("events", seen, ["ADDED", "MODIFIED", "DELETED"])

# A watch of one object is a list with a selector, also to this client.
for event in watch.Watch().stream(
    api.list_namespaced_config_map, namespace, field_selector="metadata.name=first", timeout_seconds=5
):
    expect("object", event["object"].metadata.name, "first")
    break
