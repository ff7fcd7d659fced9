"""Checks request bodies, one line of JSON each, with published types and with rules of servers."""

import collections
import json
import sys

import broken
import published
import rules

SHOWN = 40  # faults in full; the rest is counted


def without_doubles(pairs):
    """Builds an object. A field that is there twice has no meaning that all servers agree on."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError(f"a field is there twice: {[name for name, _ in pairs]}")
    return fields


def faults(entry):
    """Returns (path, message) for each fault of a body."""
    body = entry["body"]
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        yield "", "half a surrogate pair"
    by_type = published.faults(entry["target"], entry["wire"], body)
    # The rules may rely on the types.
    yield from by_type or rules.faults(entry["target"], entry["wire"], body)


def main(path):
    histories, kinds, found = collections.defaultdict(set), collections.Counter(), 0
    entries = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line, object_pairs_hook=without_doubles)
            entries.append(entry)
            histories[entry["target"]].add(entry["history"])
            for where, why in faults(entry):
                found += 1
                kinds[entry["target"], why[:100]] += 1
                if found <= SHOWN:
                    name = f"{entry['target']}, history {entry['history']}"
                    print(f"{name}: {where or 'body'}: {why}")
    bodies = sum(map(len, histories.values()))
    print(f"{bodies} bodies of {len(histories)} targets checked")
    if found > SHOWN:
        for (target, why), count in kinds.most_common():
            print(f"{count:6} times at {target}: {why}")
    if found:
        sys.exit(f"{found} faults")
    if not bodies or len({frozenset(numbers) for numbers in histories.values()}) != 1:
        sys.exit("bodies are missing: each target needs the same histories, at least one")
    if unnoticed := broken.unnoticed(entries, faults):
        sys.exit(f"no body that was broken in these ways was refused: {unnoticed}")
    print(f"{len(broken.CHANGES)} ways to break a body were noticed")


main(sys.argv[1])
