package pii

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxLocal  = 64
	maxDomain = 253
)

// fileTypes are file extensions that are no top-level domains: logo@2x.png is no address.
var fileTypes = []string{"png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "css", "scss", "js", "ts", "tsx", "jsx", "json", "html", "txt"}

// email parses the address around the @ at i.
func (s *scan) email(i int) {
	if !s.wants(Email) {
		return
	}
	from, to := s.localStart(i), s.domainEnd(i+1)
	if from == i || to == 0 || s.at(to) == '(' || s.text[from:i] == "git" && s.at(to) == ':' {
		return
	}
	s.add(from, to, Email, 1)
}

// localStart returns the start of the local part before the @ at i; i if there is none.
func (s *scan) localStart(i int) int {
	from := i
	for from > 0 && i-from < maxLocal {
		r, n := utf8.DecodeLastRuneInString(s.text[:from])
		if !isLocal(r) {
			break
		}
		from -= n
	}
	for from < i && strings.IndexByte(".-+'", s.text[from]) >= 0 {
		from++
	}
	if from < i && s.text[i-1] == '.' {
		return i
	}
	return from
}

func isLocal(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && (classes[r]&word != 0 || strings.ContainsRune(".%+-'", r))
	}
	return r != utf8.RuneError && unicode.Is(unicode.Latin, r)
}

// domainEnd returns the end of the domain at i: labels with dots, the last one of letters; 0 if there is none.
func (s *scan) domainEnd(i int) int {
	end, labelAt, last := i, i, 0
	for end < len(s.text) && end-i <= maxDomain {
		r, n := utf8.DecodeRuneInString(s.text[end:])
		switch {
		case r == '.':
			if end == labelAt || s.text[end-1] == '-' {
				return s.validDomain(i, last)
			}
			labelAt = end + 1
		case r == '-' && end > labelAt, r < utf8.RuneSelf && classes[r]&(letter|digit) != 0, r >= utf8.RuneSelf && r != utf8.RuneError && unicode.Is(unicode.Latin, r):
			last = end + n
		default:
			return s.validDomain(i, last)
		}
		end += n
	}
	return s.validDomain(i, last)
}

// validDomain returns the end of the domain in text[i:end], without trailing hyphens; 0 if it is not valid.
func (s *scan) validDomain(i, end int) int {
	for end > i && s.text[end-1] == '-' {
		end--
	}
	if end <= i {
		return 0
	}
	domain := s.text[i:end]
	dot := strings.LastIndexByte(domain, '.')
	if dot < 1 {
		return 0
	}
	top := strings.ToLower(domain[dot+1:])
	if strings.HasPrefix(top, "xn--") {
		return end
	}
	if utf8.RuneCountInString(top) < 2 || strings.ContainsFunc(top, func(r rune) bool { return !unicode.IsLetter(r) }) || slices.Contains(fileTypes, top) {
		return 0
	}
	return end
}

// url parses the password in the URL whose scheme ends at i: scheme://user:password@host.
func (s *scan) url(i int) {
	const shortest, longest = 4, 256
	if !s.wants(Password) || !strings.HasPrefix(s.text[i:], "://") || !s.is(i-1, letter|digit) {
		return
	}
	from := i + len("://")
	colon := 0
	for j := from; j < len(s.text) && j-from < longest; j++ {
		switch c := s.text[j]; {
		case c == '@':
			if colon > 0 && j-colon > shortest && !strings.ContainsAny(s.text[colon+1:colon+2], "$<{*") {
				s.add(colon+1, j, Password, 1)
			}
			return
		case c == ':' && colon == 0:
			colon = j
		case c <= ' ' || strings.IndexByte("/?#\"'`<>\\", c) >= 0:
			return
		}
	}
}
