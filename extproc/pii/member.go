package pii

import (
	"slices"
	"strings"
	"unicode"

	"bardo.money/gateway/internal/jsonx"
)

// Names of people in JSON members: {"first_name": "Ada", "last_name": "Lovelace"}, {"full_name": "Ada Lovelace"}. They are found by the names of the members; a
// given name and a family name must be in one object. Possible labels of forms, types and templates are no names.

// memberNames appends the names of people in the members of a JSON text.
func (d Detectors) memberNames(text string, masks typeSet, out []Span) []Span {
	if masks&bitOf(Name) == 0 || !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return out
	}
	v, err := jsonx.Parse([]byte(text))
	if err != nil {
		return out
	}
	w := nameMembers{out: out}
	v.Walk(&w)
	return w.out
}

// nameMembers visits a JSON text.
type nameMembers struct {
	out    []Span
	around [][]namePart // by enclosing object or array
}

// namePart is a part of a name in an object.
type namePart struct {
	Span

	of nameRole
}

// nameRole is the part of a name that a member has.
type nameRole uint8

const (
	noName nameRole = iota
	givenName
	familyName
	wholeName
)

var _ jsonx.Visitor = (*nameMembers)(nil)

// Enter implements jsonx.Visitor.
func (w *nameMembers) Enter(jsonx.Step, jsonx.Kind, bool) bool {
	w.around = append(w.around, nil)
	return true
}

// Leave implements jsonx.Visitor.
func (w *nameMembers) Leave() {
	parts := w.around[len(w.around)-1]
	w.around = w.around[:len(w.around)-1]
	has := func(of nameRole) bool { return slices.ContainsFunc(parts, func(p namePart) bool { return p.of == of }) }
	pair := has(givenName) && has(familyName)
	for _, p := range parts {
		if pair || p.of == wholeName {
			w.out = append(w.out, p.Span)
		}
	}
}

// Scalar implements jsonx.Visitor.
func (w *nameMembers) Scalar(at jsonx.Step, v jsonx.Value) {
	of := nameRoles[plainName(at.Key)]
	if of == noName || v.Kind() != jsonx.String || len(v.Raw) < len(`"ab"`) {
		return
	}
	name := string(v.Raw[1 : len(v.Raw)-1])
	if !isName(name) || of == wholeName && !isWholeName(name) {
		return
	}
	last := len(w.around) - 1
	w.around[last] = append(w.around[last], namePart{Span{v.At + 1, v.At + len(v.Raw) - 1, Name, 0.8}, of})
}

// FullNames returns adjacent names among the values of a text, combined in both orders, as other texts may have them.
func FullNames(text string, spans []Span) (out []string) {
	for i := 1; i < len(spans); i++ {
		if spans[i-1].Type != Name || spans[i].Type != Name {
			continue
		}
		a, b := text[spans[i-1].Start:spans[i-1].End], text[spans[i].Start:spans[i].End]
		if isCommonWord(a) && isCommonWord(b) {
			out = append(out, a+" "+b, b+" "+a)
		}
		if !isCommonWord(a) && !isCommonWord(b) && len(a+b) <= maxHan*len("山") {
			out = append(out, a+b, b+a, a+" "+b, b+" "+a)
		}
	}
	return out
}

// maxName is the maximum length of a name, in bytes.
const maxName = 60

// isName reports whether a text has the form of a name: letters, beginning with a capital in scripts with capitals, and separators of names.
func isName(name string) bool {
	if len(name) > maxName || noNames[plainName([]byte(name))] {
		return false
	}
	for i, r := range name {
		switch {
		case unicode.IsLetter(r), i > 0 && unicode.IsMark(r):
		case i > 0 && strings.ContainsRune(" '’-.·・\u3000", r):
			continue
		default:
			return false
		}
		if i == 0 && unicode.IsLower(r) {
			return false
		}
	}
	return true
}

// isWholeName reports whether a name has several words, or is Chinese or Japanese, without spaces.
func isWholeName(name string) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '・' || r == '\u3000' })
	if len(words) > 1 {
		return len(words) < 6 && !slices.ContainsFunc(words, func(w string) bool { return noNames[strings.ToLower(w)] })
	}
	return len(name) >= len("王五") && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) })
}

// nameRoles are the roles by names of members, in plainName's form.
var nameRoles = func() map[string]nameRole {
	m := map[string]nameRole{}
	for of, names := range map[nameRole]string{ //nolint:exhaustive // noName has none
		givenName:  "firstname givenname forename fname middlename vorname prénom prenom nombre nombres nome primeironome voornaam imię имя 名 mei",
		familyName: "lastname familyname surname lname nachname familienname nom nomdefamille apellido apellidos cognome sobrenome achternaam nazwisko фамилия 姓 sei",
		wholeName:  "fullname cardholdername nameoncard nombrecompleto nomecompleto nomcomplet vollständigername 氏名 姓名",
	} {
		for name := range strings.FieldsSeq(names) {
			m[name] = of
		}
	}
	return m
}()

// noNames are other values of such members in forms, types, templates and logs, in plainName's form, with the names of the members themselves.
var noNames = func() map[string]bool {
	m := map[string]bool{}
	for name := range nameRoles {
		m[name] = true
	}
	for name := range strings.FieldsSeq(`first last given family middle full name names string str text varchar char type value field column label title required optional unknown undefined none null nil na nan empty
		true false yes no test tester example sample demo admin administrator root user username customer client guest anonymous redacted hidden masked removed deleted placeholder default todo tbd company
		organization inc ltd llc gmbh ihr your mein votre su tu bitte please enter type here erforderlich obligatoire obligatorio requis 必須 任意 未入力 不明 匿名 非公開 なし 同上 本人 省略`) {
		m[name] = true
	}
	return m
}()

// isNameKey reports whether a quoted word may be the name, or the end of the name, of a member with a part of a person's name.
func (s *scan) isNameKey(i, end int) bool {
	if s.at(end) != '"' || s.text[i-1] != '"' && s.text[i-1] < 0x80 {
		return false
	}
	switch s.text[end-1] | 0x20 {
	case 'e', 'm', 'o', 's', 'i', 'd':
		return nameRoles[plainName([]byte(s.text[i:end]))] != noName
	}
	return false
}
