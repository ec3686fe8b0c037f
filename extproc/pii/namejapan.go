package pii

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Japanese names in texts: a frequent family name, with or without a given name, before 様, さん or 氏, or after a label such as 氏名：. Many other words end with 様 and
// さん (お客様, 仕様, 患者さん), so the text before them must begin with a listed family name. Rarer family names, and given names in kana, are not found.

// honorifics follow names.
var honorifics = []string{"様", "さん", "さま", "氏"}

// nameLabels are before names in forms, with a colon.
var nameLabels = []string{"氏名", "お名前", "姓名", "名前"}

// maxHan is the maximum number of characters of a name: three of the family name and three of the given name.
const maxHan = 6

// nameBeforeHonorific parses the name before the honorific at i.
func (s *scan) nameBeforeHonorific(i int) {
	if !s.wants(Name) || !slices.ContainsFunc(honorifics, func(h string) bool { return strings.HasPrefix(s.text[i:], h) }) {
		return
	}
	end := len(strings.TrimRight(s.text[:i], " \u3000"))
	if i-end > len("\u3000") {
		return
	}
	from, n, gap := end, 0, false
	for n <= maxHan {
		r, size := utf8.DecodeLastRuneInString(s.text[:from])
		if unicode.Is(unicode.Han, r) {
			from, n = from-size, n+1
			continue
		}
		before, _ := utf8.DecodeLastRuneInString(s.text[:from-min(size, from)])
		if gap || n == 0 || r != ' ' && r != '\u3000' || !unicode.Is(unicode.Han, before) {
			break
		}
		from, gap = from-size, true
	}
	s.japaneseName(from, end)
}

// nameAfterLabel parses the name after the label that ends with 名 or 名前 at i.
func (s *scan) nameAfterLabel(i int) {
	if !s.wants(Name) {
		return
	}
	end := i + len("名")
	if strings.HasPrefix(s.text[end:], "前") {
		end += len("前")
	}
	if !slices.ContainsFunc(nameLabels, func(l string) bool { return strings.HasSuffix(s.text[max(0, end-len("お名前")):end], l) }) {
		return
	}
	behind := s.text[end:min(len(s.text), end+maxLabelled)]
	rest := strings.TrimLeft(behind, " \u3000)）")
	if !strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, "：") {
		return
	}
	rest = strings.TrimLeft(strings.TrimLeft(rest, ":："), " \u3000\n")
	from := end + len(behind) - len(rest)
	to, n, gap := from, 0, false
	for n <= maxHan {
		r, size := utf8.DecodeRuneInString(s.text[to:])
		if unicode.Is(unicode.Han, r) && r != '様' {
			to, n = to+size, n+1
			continue
		}
		next, _ := utf8.DecodeRuneInString(s.text[to+size:])
		if gap || n == 0 || r != ' ' && r != '\u3000' || !unicode.Is(unicode.Han, next) {
			break
		}
		to, gap = to+size, true
	}
	s.japaneseName(from, to)
}

// maxLabelled is the number of bytes after a label in which a name must begin.
const maxLabelled = 24

// japaneseName adds text[from:to] if it is a family name, with or without a given name.
func (s *scan) japaneseName(from, to int) {
	name := s.text[from:to]
	n := utf8.RuneCountInString(name)
	if n < 2 || n > maxHan+1 {
		return
	}
	for _, size := range [...]int{9, 6, 3} { // of three, two and one characters
		if size > len(name) || !familyNames[name[:size]] {
			continue
		}
		given := strings.TrimLeft(name[size:], " \u3000")
		switch {
		case given == "" && s.isPlaceHere(name), utf8.RuneCountInString(given) > 3, slices.ContainsFunc(noGivenNames, func(w string) bool { return strings.HasSuffix(given, w) }):
			continue
		}
		s.add(from, to, Name, 0.7)
		return
	}
}

// isPlaceHere reports whether the text also has the family name as the name of a place: 石川県.
func (s *scan) isPlaceHere(name string) bool {
	return slices.ContainsFunc([]string{"県", "市", "区", "町", "村", "駅"}, func(of string) bool { return strings.Contains(s.text, name+of) })
}

// noGivenNames are suffixes of words after a family name that are no given names: titles, and kinds of companies, shops and places.
var noGivenNames = strings.Fields(`部長 課長 係長 社長 店長 会長 主任 先生 院長 所長 議員 大臣 建設 商店 商会 商事 工業 工務店 電機 電気 製作所 運輸 病院 医院 支店 本店 薬局 書店 酒造 産業 物産 銀行 会社 御一行 家 方 宛 殿 君
	県 市 区 町 村 駅 川 山 橋 通 店 社 客 者 皆 奥 同 多 仕 神 王 姫 模 異`)

// familyNames are about two hundred of the most frequent family names of Japan.
var familyNames = func() map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq(`佐藤 鈴木 高橋 田中 伊藤 渡辺 渡邊 渡邉 山本 中村 小林 加藤 吉田 山田 佐々木 山口 松本 井上 木村 林 斎藤 斉藤 齋藤 清水 山崎 森 池田 橋本 阿部 石川 山下 中島 石井 小川 前田 岡田
		長谷川 藤田 後藤 近藤 村上 遠藤 青木 坂本 福田 太田 西村 藤井 金子 岡本 藤原 三浦 中野 中川 原田 松田 竹内 小野 田村 中山 和田 石田 森田 上田 原 内田 柴田 酒井 宮崎 横山 高木 安藤 宮本 大野 小島 谷口
		工藤 今井 高田 増田 丸山 杉山 村田 大塚 新井 小山 平野 藤本 河野 上野 野口 武田 松井 千葉 菅原 岩崎 久保 木下 佐野 野村 松尾 市川 菊地 菊池 杉本 古川 大西 島田 水野 桜井 高野 渡部 吉川 山内 西田 飯田
		西川 小松 北村 安田 五十嵐 川口 平田 関 中田 久保田 服部 東 岩田 土屋 川崎 福島 本田 辻 樋口 秋山 田口 永井 山中 中西 吉村 川上 石原 大橋 松岡 馬場 浜田 森本 星野 矢野 浅野 大久保 松下 吉岡 小池
		野田 荒木 熊谷 松浦 大谷 内藤 黒田 尾崎 川村 永田 望月 松村 荒井 堀 田辺 西山 小田 大島 平井 早川 大川 今村 片山 菅野 沢田 山村 岡崎 児玉 須藤 黒木 栗原 柳沢 小澤 小沢 堀内 石橋 三宅 成田 津田 関口`) {
		m[name] = true
	}
	return m
}()
