"""The peers' plot: speed beside memory."""

from typing import Final

from matplotlib.figure import Figure

from benchmarks.peers.results import PeerResult, Peers

_MIB: Final = 1 << 20
_OURS: Final = "#2a6fdb"
_PEER: Final = "#8a8f98"
_BARE: Final = "#d5d8dc"


def plot_peers(figure: Figure, result: Peers) -> None:
    """Draw the medians as bars, and each round as a dot."""
    left, right = figure.subplots(1, 2, width_ratios=(3, 2), sharey=True)
    places = range(len(result.peers))
    colors = [_color(peer) for peer in result.peers]
    left.barh(places, [peer.per_cpu_second / 1e3 for peer in result.peers], color=colors)
    right.barh(places, [peer.peak_bytes / _MIB for peer in result.peers], color=colors)
    for place, peer in enumerate(result.peers):
        dots: dict[str, object] = {"color": "black", "markersize": 4}
        left.plot(
            [run.per_cpu_second / 1e3 for run in peer.runs], [place] * len(peer.runs), ".", **dots
        )
        right.plot(
            [run.peak_bytes / _MIB for run in peer.runs], [place] * len(peer.runs), ".", **dots
        )
    left.set_yticks(places, [peer.title for peer in result.peers], fontsize=8)
    left.invert_yaxis()
    left.set(xlabel="thousand messages / CPU second")
    right.set(xlabel="peak resident memory, MiB")


def _color(peer: PeerResult) -> str:
    if not peer.removes_duplicates:
        return _BARE
    return _OURS if peer.name == "ours" else _PEER
