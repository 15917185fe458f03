"""Finds the dictionary words nearest to misspelt ones with one matrix product, by gemmd.

A word becomes a vector that counts its letter trigrams ("^recieve$" has ^re rec eci cie iev eve
ve$), scaled to length 1. Each row of W is a dictionary word, each row of Q a misspelt one, and
W Q^T holds the cosine similarity of every pair. W is larger than a message may be, so it goes in
blocks of rows. Every element that comes back is compared with the same product in float64.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import time
import zlib

import numpy as np

WORD_LIST = "/usr/share/dict/words"
MISSPELT = (
    "accomodate begining comittee definately embarass enviroment "
    "millenium neccessary rythm suprise tommorow vaccuum"
).split()
BUCKETS = 1021  # trigrams are hashed; a prime, so that no kernel gets a convenient shape
BLOCK_BYTES = 56 << 20  # of a message's 64 MiB
PHASES = ("admit", "receive", "decode", "queue", "copy_in", "compute", "copy_out")


def trigram_vectors(words):
    vectors = np.zeros((len(words), BUCKETS), np.float32)
    for row, word in enumerate(words):
        padded = f"^{word.lower()}$"
        for i in range(len(padded) - 2):
            vectors[row, zlib.crc32(padded[i : i + 3].encode()) % BUCKETS] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gemmctl", type=pathlib.Path, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--scratch", type=pathlib.Path, required=True, help="folder for .npy files")
    parser.add_argument("words", nargs="*", metavar="WORD", help="default: a dozen misspelt words")
    args = parser.parse_args()
    misspelt = args.words or MISSPELT

    with open(WORD_LIST, encoding="utf-8") as file:
        words = sorted(set(re.findall(r"^[A-Za-z]+$", file.read(), re.MULTILINE)))
    dictionary = trigram_vectors(words)
    queries = trigram_vectors(misspelt)
    rows_per_block = BLOCK_BYTES // (BUCKETS * dictionary.itemsize)
    blocks = range(0, len(words), rows_per_block)
    print(
        f"{len(words)} words of {WORD_LIST} by {BUCKETS} trigram buckets, "
        f"{dictionary.nbytes / 1e6:.0f} MB in {len(blocks)} products with {len(misspelt)} words"
    )

    np.save(args.scratch / "misspelt.npy", queries)
    command = [args.gemmctl.resolve(), "--address", args.address, "multiply"]
    command += ["words.npy", "misspelt.npy", "--transpose-b", "-o", "similarity.npy", "--json"]
    print("$ " + " ".join(["gemmctl", *command[1:]]) + f"    ({len(blocks)} times)\n")
    similarity = np.empty((len(words), len(misspelt)), np.float32)
    reports = []
    started = time.monotonic()
    for start in blocks:
        block = slice(start, start + rows_per_block)
        np.save(args.scratch / "words.npy", dictionary[block])
        result = subprocess.run(
            command, cwd=args.scratch, stdout=subprocess.PIPE, text=True, check=False
        )
        if result.returncode != 0:
            sys.exit(f"gemmctl ended with status {result.returncode}")
        reports.append(json.loads(result.stdout))
        similarity[block] = np.load(args.scratch / "similarity.npy")
    elapsed = time.monotonic() - started

    for column, word in enumerate(misspelt):
        nearest = np.argsort(-similarity[:, column], kind="stable")[:3]
        found = ", ".join(f"{words[i]} {similarity[i, column]:.2f}" for i in nearest)
        print(f"  {word:<14} -> {found}")

    # Vectors have length 1, so |A||B| is the similarity itself, and f32 sums of k terms are within
    # 4 sqrt(k) units of rounding of it (plus one for the result).
    exact = dictionary.astype(np.float64) @ queries.T.astype(np.float64)
    error = np.abs(similarity - exact)
    bound = (4 * np.sqrt(BUCKETS) + 1) * 2.0**-24 * np.abs(exact)
    print(f"\nCompared {error.size} elements with float64: worst error {error.max():.1e}, ", end="")
    if not np.all(error <= bound):  # also false for NaN
        worst = np.unravel_index(np.argmax(np.nan_to_num(error - bound, nan=np.inf)), error.shape)
        print(f"WRONG at {worst}: {similarity[worst]} instead of {exact[worst]}")
        return 1
    print(f"{np.max(error / np.maximum(bound, 1e-300)):.3f} of what is allowed")

    kernels = sorted({report["kernel"] for report in reports})
    devices = sorted({report["device"] for report in reports})
    print(f"Kernel {', '.join(kernels)} on {', '.join(devices)}")
    milliseconds = {
        phase: 1e3 * sum(report["server_seconds"][phase] for report in reports) for phase in PHASES
    }
    print("Time on the server: ", end="")
    print(", ".join(f"{name.replace('_', ' ')} {ms:.1f}" for name, ms in milliseconds.items()), end="")
    print(f" ms; {elapsed:.1f} s with the client and its files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
