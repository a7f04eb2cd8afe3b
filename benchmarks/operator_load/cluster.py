"""Pretend a Kubernetes cluster: an API server in memory, nodes that run all pods, workers that answer.

A process apart from the operator's. It has what the operator uses: get, list, watch, server-side apply, and the status
of workers on port 8080 of each pod's loopback address.
"""

import asyncio
import json
import sys

from aiohttp import web

from benchmarks.operator_load.store import KINDS, Cluster, Object, node, selected
from tests.unit.operator.objects import worker_status


class Server:
    """The HTTP API of the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def app(self) -> web.Application:
        """Return the application: the API server, and what a measurement asks it."""
        app = web.Application(client_max_size=16 << 20)
        app.router.add_get("/requests", self._requests)
        app.router.add_get("/version", self._version)
        app.router.add_route("*", "/{path:apis?(/.*)?}", self._answer)
        return app

    async def _requests(self, _: web.Request) -> web.Response:
        return web.json_response(self._cluster.requests)

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        parts = request.match_info["path"].split("/")
        inside = parts[2 if parts[0] == "api" else 3 :]
        namespace = ""
        if inside[:1] == ["namespaces"] and len(inside) > 2:
            namespace, inside = inside[1], inside[2:]
        if not inside:
            return web.json_response(_discovered(parts))
        plural, rest = inside[0], inside[1:]
        verb = "watch" if request.query.get("watch") == "true" else request.method.lower()
        verb = "list" if verb == "get" and not rest else verb
        counted = f"{verb} {plural}{'/status' * ('status' in rest)}"
        self._cluster.requests[counted] = self._cluster.requests.get(counted, 0) + 1
        if verb == "watch":
            return await self._watch(request, plural, namespace)
        if verb == "list":
            return self._list(request, plural, namespace)
        if verb == "get":
            found = self._cluster.objects[plural].get((namespace, rest[0]))
            return web.json_response(found) if found else _not_found(rest[0])
        return self._write(verb, plural, namespace, rest, await request.json())

    def _write(
        self, verb: str, plural: str, namespace: str, rest: list[str], body: Object
    ) -> web.Response:
        if verb == "post":
            body["metadata"].setdefault("name", f"made-{len(self._cluster.objects[plural])}")
            body["metadata"].setdefault("namespace", namespace)
            return web.json_response(self._cluster.put(plural, body), status=201)
        if verb == "put" and (namespace, rest[0]) not in self._cluster.objects[plural]:
            return _not_found(rest[0])
        body.setdefault("metadata", {}).setdefault("name", rest[0])
        if namespace:
            body["metadata"].setdefault("namespace", namespace)
        return web.json_response(self._cluster.apply(plural, body))

    def _list(self, request: web.Request, plural: str, namespace: str) -> web.Response:
        found = [
            live
            for (place, _), live in self._cluster.objects[plural].items()
            if namespace in {"", place} and selected(request.query, live)
        ]
        version = next(self._cluster.versions)
        if "continue" in request.query:  # all pages of a list have the version of the first
            version, begin = map(int, request.query["continue"].split("-"))
        else:
            begin = 0
        end = begin + (int(request.query.get("limit", "0")) or len(found))
        following = f"{version}-{end}" if end < len(found) else ""
        metadata = {"resourceVersion": str(version), "continue": following}
        return web.json_response({"metadata": metadata, "items": found[begin:end]})

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        seconds = float(request.query.get("timeoutSeconds", "300"))
        async with self._cluster.watching(plural) as changes:
            end = asyncio.get_running_loop().time() + seconds
            while (left := end - asyncio.get_running_loop().time()) > 0:
                try:
                    kind, live = await asyncio.wait_for(changes.get(), left)
                except TimeoutError:
                    break
                if namespace in {"", live["metadata"].get("namespace")} and selected(
                    request.query, live
                ):
                    line = json.dumps({"type": kind, "object": live}) + "\n"
                    await response.write(line.encode())
        return response


def _not_found(name: str) -> web.Response:
    return web.json_response({"message": f"{name} not found", "code": 404}, status=404)


def _discovered(parts: list[str]) -> Object:
    """Return what is there below a path, for clients that ask."""
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if parts == ["apis"]:
        version = {"groupVersion": "dedupestream.io/v1alpha1", "version": "v1alpha1"}
        group = {"name": "dedupestream.io", "versions": [version], "preferredVersion": version}
        return {"kind": "APIGroupList", "groups": [group]}
    here = ("namespaces",) if parts[0] == "api" else ("dedupestreams", "dedupesnapshots")
    resources = [
        {"name": plural, "kind": KINDS[plural], "namespaced": plural != "namespaces"}
        | {"singularName": plural.removesuffix("s"), "verbs": ["get", "list", "watch", "patch"]}
        for plural in here
    ]
    return {"kind": "APIResourceList", "groupVersion": "/".join(parts[1:]), "resources": resources}


async def worker(request: web.Request) -> web.Response:
    """Answer as the worker whose address was asked."""
    partition = request.app["partitions"].get(request.host.partition(":")[0], 0)
    return web.Response(text=request.app["texts"][partition], content_type="application/json")


async def serve(port: int, partitions: int) -> None:
    """Serve until the process is ended."""
    cluster = Cluster()
    cluster.put("nodes", node())
    workers = web.Application()
    workers["texts"] = {
        each: worker_status(each).model_dump_json(by_alias=True) for each in range(partitions)
    }
    workers["partitions"] = _Partitions(cluster)
    workers.router.add_get("/status", worker)
    for app, host, at in ((Server(cluster).app(), "127.0.0.1", port), (workers, "0.0.0.0", 8080)):  # noqa: S104 # each loopback address is a worker
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, host, at).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


class _Partitions:
    """Partitions by the address of their worker."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, int] = {}

    def get(self, address: str, default: int) -> int:
        if address not in self._known:
            self._known = {
                pod["status"]["podIP"]: int(pod["metadata"]["name"].rsplit("-", 2)[1])
                for pod in self._cluster.objects["pods"].values()
            }
        return self._known.get(address, default)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
