package intent

import "unicode/utf8"

// wordClass is what a word in an instruction suggests.
type wordClass uint8

const (
	demanding wordClass = iota // reasons, proof, design: tasks for strong models
	simple                     // simple tasks
	greeting                   // greetings, not tasks
	translate                  // the kind of task
	summarize
	rewrite
	classify
	extract
	analyse
	maths
	code
	data
	wordClasses
)

// lexicon has words that show the kind or the difficulty of a task, in the supported languages. An entry matches every word that begins with it; in
// scripts without spaces it matches anywhere. The lexicon is small: the structure of a text shows more than its words, in every language.
var lexicon = [wordClasses][]string{
	demanding: {
		// English
		"prove", "proof", "derive", "derivation", "justify", "justif", "reconcil", "counterexample", "invariant", "hypothes", "root cause",
		"trade-off", "tradeoff", "critique", "synthesi", "rigor", "assumption", "premise", "falsif", "causal", "refute", "contradict",
		"theorem", "lemma", "asymptotic", "concurren", "lock-free", "deadlock", "race condition", "distributed", "consensus", "threat model",
		"architect", "rollback", "sensitivity", "identif", "infer", "formal", "constrain", "optimal", "converge", "framework",
		"step by step", "strategy", "mitigat", "edge case", "adversar", "objection", "evidence", "determine whether", "characteri",
		"show that", "simulat", "root-cause", "investigat", "backfill", "chronolog", "mechanism", "schema", "methodolog", "implication",
		// Spanish, Portuguese
		"demuestr", "demostra", "demonstr", "justifi", "deduc", "deduz", "deriv", "argument", "contradic", "hipótes", "supuest", "pressupost",
		"contrast", "síntesis", "síntese", "crític", "critica", "riguros", "rigoros", "invariante", "estrateg", "objeci", "objeç", "razona",
		"evalúa", "valora", "diseñ", "desenh", "formule", "formula", "inferenc", "sesgo", "mitiga", "evidênc", "evidenc", "prueba que",
		"prove que", "causal", "incompatib", "reconstr",
		// French
		"démontr", "prouve", "justifie", "dédui", "hypothès", "argumen", "contradict", "conceva", "conçois", "critiqu", "rigoureu",
		"compromis", "confront", "arbitrage", "vulnérab", "incohéren", "présuppos", "distingue", "nuance", "jurisprud", "chronolog",
		// German
		"beweis", "zeige, dass", "begründ", "leite her", "herleit", "widerleg", "widerspr", "annahme", "hypothes", "entwirf", "entwerf",
		"untersuch", "abwäg", "wäge", "stringent", "kausal", "invarian", "strategi", "schlussfolger", "rechtfertig", "prüfe", "voraussetz",
		"nachvollziehbar", "erläuter", "einwänd",
		// Russian
		"докаж", "доказ", "обоснуй", "обоснов", "выведи", "вывести формул", "гипотез", "противореч", "опроверг", "контрпример", "инвариант",
		"спроектир", "стратег", "предпосыл", "допущен", "причинн", "аргумент", "критич", "оцени", "сопостав", "компромисс", "разгранич",
		"проанализ", "возражен",
		// Chinese
		"证明", "推导", "论证", "反例", "严格", "假设", "矛盾", "权衡", "取舍", "架构", "评估", "推断", "推演", "一致性", "分析框架", "根因", "策略", "依据",
		"敏感性", "辨析", "界限", "利弊", "批判", "回滚", "不变量", "充要条件", "机制",
		// Japanese
		"証明", "導出", "論拠", "根拠", "反例", "厳密", "仮説", "仮定", "矛盾", "設計し", "戦略", "検証", "論じ", "考察", "因果", "不変条件", "妥当性", "前提",
		// Arabic
		"برهن", "أثبت", "اثبت", "استنتج", "علّل", "برّر", "فرضي", "تناقض", "تعارض", "انقض", "حجة", "حجّة", "نقدي", "المقدّمات", "استراتيج", "صمّم",
		"قيّم", "الأدلة", "السببي", "مثالًا مضاد", "وفّق", "توفّق",
		// Hindi
		"सिद्ध", "प्रमाण", "तर्क", "परिकल्पना", "मान्यता", "विश्लेषण कर", "निष्कर्ष", "औचित्य", "विरोधाभास", "रणनीति", "प्रभावों", "मूल्यांकन",
		// Korean, Turkish, Italian
		"증명", "추론", "논증", "전략", "가설", "근거", "반례", "kanıtla", "ispatla", "gerekçe", "varsayım", "dimostra", "giustifica", "ipotesi",
	},
	simple: {
		"briefly", "short", "simple", "simply", "quick", "in plain words", "year old", "corto", "breve", "sencill", "simple", "rápid", "curto",
		"en quelques", "simplement", "kurz", "einfach", "kleine", "коротко", "кратко", "прост", "лёгк", "简单", "简短", "简要", "簡単", "短く", "باختصار",
		"संक्षेप", "छोटा", "간단", "짧게", "kısaca", "basit", "breve", "semplice", "petit",
	},
	greeting: {
		"hi ", "hello", "hey", "thanks", "thank you", "good morning", "good evening", "hola", "gracias", "buenos", "qué tal", "olá", "oi ", "obrigad",
		"bom dia", "bonjour", "merci", "salut", "hallo", "danke", "guten", "привет", "спасибо", "здравств", "доброе", "你好", "谢谢", "早上好", "您好",
		"こんにちは", "ありがとう", "おはよう", "مرحب", "شكر", "السلام", "नमस्ते", "धन्यवाद", "안녕", "감사", "merhaba", "teşekkür", "ciao", "grazie",
	},
	translate: {
		"translat", "how do you say", "in spanish", "in french", "in german", "into english", "traduc", "traduz", "tradui", "tradúc", "übersetz",
		"übertrag", "auf französisch", "auf englisch", "auf deutsch", "перевед", "перевод", "по-испанс", "по-англ", "翻译", "译成", "译为", "英語に",
		"翻訳", "訳し", "和訳", "ترجم", "بالفرنسية", "بالإنجليزية", "अनुवाद", "अंग्रेज़ी में", "번역", "çevir", "traduci",
	},
	summarize: {
		"summar", "summary", "tl;dr", "tldr", "gist", "main points", "key points", "resum", "resumen", "résum", "zusammenfass", "fasse", "fass ",
		"кратко изложи", "о чём", "суть", "резюм", "总结", "概括", "归纳", "要約", "まとめ", "لخّص", "لخص", "خلاصة", "सारांश", "요약", "özet", "riassum",
	},
	rewrite: {
		"rewrite", "rephrase", "reword", "fix the", "correct", "proofread", "make this sound", "make it sound", "more formal", "turn these", "rework",
		"reescrib", "reescrev", "corrig", "reformul", "réécri", "umschreib", "schreib das", "korrigier", "höflicher", "перепиш", "исправ", "передел",
		"перефраз", "改写", "重写", "改个", "润色", "修改", "書き直", "言い換え", "添削", "丁寧な", "أعد صياغة", "أعد كتابة", "صحّح", "दोबारा लिख", "सुधार", "고쳐",
		"다듬", "düzelt", "riscriv", "correggi",
	},
	classify: {
		"classif", "categor", "which category", "label", "tag this", "spam", "positive or negative", "sentiment", "sort these", "which department",
		"clasific", "positivo o negativo", "rubrique", "classe ces", "ordne", "klassif", "kategorie", "классиф", "отзыв", "категор", "分类", "哪一类",
		"属于", "判断", "分類", "肯定的", "振り分け", "صنّف", "صنف", "श्रेणी", "분류", "sınıfland", "classifica",
	},
	extract: {
		"extract", "pull the", "pull out", "as json", "list title", "fill in", "extra", "saca", "relevé", "lies aus", "auslesen", "извлек", "выпиш",
		"提取", "抽取", "抽出", "抜き出", "استخرج", "निकाल", "추출", "çıkar", "estrai", "en json", "in json",
	},
	analyse: {
		"analy", "compare", "comparison", "pros and cons", "advantages", "which makes more sense", "should i", "should we", "evaluate", "assess", "plan ",
		"compara", "ventaj", "analiz", "analis", "compar", "avantag", "vaut-il", "vergleich", "vor- und nachteil", "was spricht", "bewerte", "сравн",
		"анализ", "преимущ", "плюсы", "分析", "比较", "优缺点", "比較", "メリット", "حلّل", "قارن", "مزايا", "तुलना", "विश्लेषण", "फायदे", "비교", "장단점",
		"karşılaştır", "confronta", "vantaggi", "discuss",
	},
	maths: {
		"solve", "integral", "equation", "calculate", "compute", "probabilit", "derivative", "maximum of", "finite group", "sequence", "polynom", "matrix",
		"prime", "resuelve", "calcul", "ecuaci", "equação", "équation", "intégrale", "berechn", "gleichung", "bestimme", "wahrscheinlichkeit", "реши",
		"вычисл", "уравнен", "вероятност", "интеграл", "числител", "计算", "求", "方程", "概率", "积分", "函数 f", "計算", "方程式", "確率", "積分", "احسب", "معادلة",
		"احتمال", "हल कर", "समीकरण", "क्षेत्रफल", "गणना", "계산", "방정식", "hesapla", "denklem", "calcola", "times", "plus", "minus",
	},
	code: {
		"function", "python", "javascript", "typescript", "golang", "rust", "java ", "c++", "refactor", "unit test", "compiler", "regex", "stack trace",
		"traceback", "html", "css", "react", "vue", "django", "fastapi", "express", "script", "bash", "git ", "docker", "kubernetes", "api ",
		"endpoint", "func ", "def ", "class ", "#include", "console.log", "función", "código", "código", "fonction", "funktion", "skript", "функци", "код ",
		"скрипт", "函数", "代码", "组件", "関数", "コード", "コマンド", "دالة", "कोड", "함수", "코드", "fonksiyon", "linux", "queue", "thread", "mutex",
	},
	data: {
		"sql", "excel", "spreadsheet", "pandas", "csv", "google sheets", "postgres", "dataframe", "sheets", "таблиц", "tabelle", "query", "consulta",
		"запрос", "表格", "एक्सेल", "استعلام", "schema",
	},
}

// lexiconWords is the number of machine words that hold one bit per lexicon entry.
const lexiconWords = 16

// entry is a word of the lexicon.
type entry struct {
	text     string
	class    wordClass
	id       uint16
	anywhere bool // matches anywhere, because its script has no spaces, or joins particles to words
}

// wordsByPrefix has the words by their first two bytes, so that a text is scanned once with few comparisons.
var wordsByPrefix = func() *[1 << 10][]entry {
	var out [1 << 10][]entry
	id := uint16(0)
	for class := range lexicon {
		for _, w := range lexicon[class] {
			at := bucketOf(w[0], w[1])
			out[at] = append(out[at], entry{w, wordClass(class), id, joins(w)})
			id++
		}
	}
	return &out
}()

func bucketOf(a, b byte) uint16 { return (uint16(a)<<4 ^ uint16(b)*7) & (1<<10 - 1) }

// joins reports whether a word is in a script that does not separate words by spaces, or joins articles to them.
func joins(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return r >= 0x0590 && (r < 0x0900 || r >= 0x1100)
}

// match records the lexicon words in a text in lower case.
func (f *features) match(low []byte) {
	inside := false // inside a word
	for i := 0; i+1 < len(low); i++ {
		c := low[i]
		if c >= 0x80 && c < 0xC0 { // continuation byte of a rune
			continue
		}
		begins := !inside
		inside = c >= 'a' && c <= 'z' || c >= 0x80 || c == '_'
		for _, e := range wordsByPrefix[bucketOf(c, low[i+1])] {
			if (begins || e.anywhere) && len(low)-i >= len(e.text) && string(low[i:i+len(e.text)]) == e.text {
				f.note(e)
			}
		}
	}
}

func (f *features) note(e entry) {
	at, bit := e.id/64, uint64(1)<<(e.id%64)
	if f.seen[at]&bit == 0 {
		f.seen[at] |= bit
		f.has[e.class]++
	}
}
