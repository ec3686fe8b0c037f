"""reference.py wordpiece TOKENIZER OUT, or reference.py unigram TOKENIZER OUT, or reference.py o200k RANKS OUT: what the tokens of many texts are by the reference library, for the tests of our tokenizers.

With unigram, the tokenizer is made first, in the form of DeBERTa's: the vocabulary is trained on the texts, and the table of characters is
that of sentencepiece. With o200k, RANKS is the vocabulary, in tiktoken's form.
Run it with tokenizers 0.23.3, tiktoken 0.14.0, sentencepiece 0.2.1 and protobuf 7.36.2. The output is JSON, compressed:
texts with their tokens, and a hash for each 256 characters of Unicode, of the tokens of all texts "aXb".
"""

import gzip
import hashlib
import json
import random
import sys
import unicodedata

import tokenizers

SAMPLES = """The quick brown fox jumps over the lazy dog, doesn't it? Swap 1.5 ETH for USDC on Uniswap v3 at 0.05% slippage!
How do I add liquidity to a pool on Arbitrum, and what are the fees? Bridge 100 USDC from Base to Optimism.
Zażółć gęślą jaźń. Příliš žluťoučký kůň úpěl ďábelské ódy. Đặng Trần Côn viết thơ. İstanbul'da ışık. Ångström, naïve façade, ﬁne ﬂuﬀ, Straße.
Съешь же ещё этих мягких французских булок, да выпей чаю. Ёлка й Ї ґ. Ο Θεός ἀγάπη ἐστίν, ΣΊΣΥΦΟΣ ς.
שָׁלוֹם עֲלֵיכֶם, מה נשמע? السَّلامُ عَلَيْكُمْ، كيف حالك؟ سلام دنیا ۱۲۳
नमस्ते दुनिया, क्षत्रिय ज्ञान। বাংলা ভাষা। தமிழ் மொழி. తెలుగు ಕನ್ನಡ മലയാളം ગુજરાતી ਪੰਜਾਬੀ සිංහල
สวัสดีชาวโลก ภาษาไทย ລາວ မြန်မာ ខ្មែរ བོད་སྐད 你好,世界。我爱北京天安门! 繁體中文測試 日本語のテキスト、カタカナとひらがな。ﾊﾝｶｸ 한국어 문장 안녕하세요 ㄱㄴㄷ
👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 😀😃😄 ❤️ ☃ ™ © ½ ² Ⅷ ① ㌀ ﷺ … — – “quoted” ‘single’ «guillemets» „low“ ‽ ⁂ § ¶ † ‡ • € £ ¥ ₿ ₹ ∑ √ ∞ ≠ ≤ → ← ↑
def f(x):\n\treturn {'a': [1, 2.5e-3], "b": None}  # comment\r\nSELECT * FROM t WHERE a <> 'x';\n<div class="x">&nbsp;</div> https://example.org/a?b=c&d=%20#frag
0xdAC17F958D2ee523a2206206994597C13D831ec7 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 user@example.com +49 (0)30 123456 2026-11-21T19:14:50Z
[CLS] [SEP][MASK] [UNK] [PAD]text [ CLS ] [cls] [MASK]. ▁ ▁▁a ##ing unaffable supercalifragilisticexpialidocious antidisestablishmentarianism
ሰላም ልዑል ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ ქართული ენა Հայերեն լեզու ᚠᛇᚻ ⠓⠑⠇⠇⠕ 𝕳𝖊𝖑𝖑𝖔 𝓦𝓸𝓻𝓵𝓭 ℌ𝔢𝔩𝔩𝔬 Ｆｕｌｌｗｉｄｔｈ １２３ ｱｲｳ 𐍈𐌰𐌿𐍄 𒀀𒀁 𓀀𓀁"""

ODDITIES = ["", " ", "  ", "\n", "\t\n \t", "\x00", "a\x00b", "\x1f", "\x7f", "\u00a0", "a\u00a0b", "\u200b", "a\u200bb", "\u200d", "\ufeffa", "\u2028", "\u0085", "\ufffd", "\u3000",
            "\ue000", "e\u0301", "\u0301", "a" * 99, "a" * 100, "a" * 101, "ab" * 300, "中" * 120, "é" * 101, "." * 300, "   a   b   ", "a\r\nb\rc", "\U0010ffff", "\u0378x",
            "[SEP]", "[SEP][SEP]", "a[SEP]b", "[[SEP]]", "[MASK] a [MASK]", " [CLS] ", "\u2581", "\u2581\u2581x", "a \u2581 b", "ﬃ", "㍿", "\u1e9b\u0323", "각", "\u1100\u1161\u11a8",
            "क्षि", "\u0f73", "\U0001d15e", "ΑΣ ΑΣΑ", "İ", "ǅ", "ß", "\u0345", "x\u0334\u0335\u0336y", "e\u0301" * 50, "👨‍👩‍👧", "🇩🇪🇫🇷🇬", "\u0600a", "a\u0903"]


def texts():
    rng = random.Random(20261121)
    lines = SAMPLES.split("\n")
    words = [w for line in lines for w in line.split(" ")]
    out = ODDITIES + lines + [SAMPLES] + words
    for _ in range(1500):  # words of several scripts in any order
        out.append(rng.choice([" ", "  ", "\n", "", ", ", "\t"]).join(rng.choice(words) for _ in range(rng.randint(1, 12))))
    letters = sorted(set(SAMPLES))
    for _ in range(900):  # letters of several scripts in any order
        out.append("".join(rng.choice(letters) for _ in range(rng.randint(1, 40))))
    assigned = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cs", "Cn")]
    for _ in range(900):  # any character
        out.append("".join(rng.choice(assigned) for _ in range(rng.randint(1, 24))))
    for _ in range(300):  # cut in the middle
        i = rng.randrange(len(SAMPLES) - 60)
        out.append(SAMPLES[i : i + rng.randint(1, 60)])
    return out


def blocks(tokenizer):
    out = []
    for begin in range(0, 0x110000, 256):
        chars = [chr(c) for c in range(begin, begin + 256) if not 0xD800 <= c <= 0xDFFF]
        ids = [e.ids for e in tokenizer.encode_batch(["a" + c + "b" for c in chars])] if chars else []
        out.append(hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()[:8])
    return out


def train(path):
    """Makes a tokenizer in the form of DeBERTa's."""
    import io

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    lines = [line for t in texts() for line in t.split("\n") if line.strip() and set(line) <= set(SAMPLES)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=3000, model_type="unigram", normalization_rule_name="nmt_nfkc",
        character_coverage=0.995, hard_vocab_limit=False, num_threads=1, pad_id=-1, bos_id=-1, eos_id=-1, minloglevel=2,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    vocab = [(s, 0.0) for s in special] + [(p.piece, p.score) for p in proto.pieces if p.type == 1] + [("[MASK]", 0.0)]
    t = Tokenizer(models.Unigram(vocab, unk_id=3, byte_fallback=False))
    t.normalizer = normalizers.Sequence([
        normalizers.Strip(), normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap), normalizers.Replace(Regex(" {2,}"), " "),
    ])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")])
    t.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    t.add_special_tokens([AddedToken(s, normalized=s == "[UNK]", lstrip=s == "[MASK]") for s in special + ["[MASK]"]])
    with gzip.GzipFile(path, "wb", mtime=0) as f:
        f.write(json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")).encode())


def o200k(path, out):
    import base64

    import tiktoken

    upper, lower, end = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    pattern = "|".join([
        rf"[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+{end}", rf"[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*{end}",
        r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
    ])
    ranks = {base64.b64decode(t): int(n) for t, n in (line.split() for line in open(path))}
    encoding = tiktoken.Encoding("o200k", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    more = ["\n\t\n", " \n \n x", "\n\t\n\t\ta", "I'M HERE'S they'LL we'Ve X'd", "HTTPServer aBcDeF ÀÉÎõü", "x  y   \tz \u00a0 w", "a" * 3000, "\u0301\u0301a", "//\r\n//\n x/\n", "it'ſ"]
    with gzip.GzipFile(out, "wb", mtime=0) as f:
        f.write(json.dumps({"texts": [[t, encoding.encode_ordinary(t)] for t in texts() + more]}, ensure_ascii=True, separators=(",", ":")).encode())


def main(kind, path, out):
    if kind == "o200k":
        return o200k(path, out)
    if kind == "unigram":
        train(path)
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        tokenizer = tokenizers.Tokenizer.from_str(f.read().decode())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    cases = [[t, tokenizer.encode(t).ids] for t in texts()]
    with gzip.GzipFile(out, "wb", mtime=0) as f:
        f.write(json.dumps({"version": tokenizers.__version__, "texts": cases, "blocks": blocks(tokenizer)}, ensure_ascii=True, separators=(",", ":")).encode())


main(*sys.argv[1:])
