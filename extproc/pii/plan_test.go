package pii

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nyaruka/phonenumbers"

	"bardo.money/gateway/internal/racetest"
)

// numberOf returns a number in the library's form: leading zeros are a separate count.
func numberOf(code int, digits []byte) *phonenumbers.PhoneNumber {
	number, zeros := uint64(0), 0
	for i, c := range digits {
		if number == 0 && c == '0' && i == zeros {
			zeros++
		}
		number = number*10 + uint64(c-'0')
	}
	n := &phonenumbers.PhoneNumber{CountryCode: new(int32(code)), NationalNumber: &number}
	if zeros > 0 {
		n.ItalianLeadingZero = new(true)
		if zeros > 1 {
			n.NumberOfLeadingZeros = new(int32(zeros))
		}
	}
	return n
}

// examples returns the library's example numbers, by country code.
func examples(t *testing.T) map[int][]string {
	t.Helper()
	all, err := phonenumbers.MetadataCollection()
	if err != nil {
		t.Fatal(err)
	}
	found := map[int][]string{}
	for _, m := range all.GetMetadata() {
		code := int(m.GetCountryCode())
		for _, d := range []*phonenumbers.PhoneNumberDesc{m.GetFixedLine(), m.GetMobile(), m.GetTollFree(), m.GetPremiumRate(), m.GetVoip(), m.GetUan(), m.GetPersonalNumber(), m.GetSharedCost(), m.GetPager(), m.GetVoicemail()} {
			if e := d.GetExampleNumber(); e != "" {
				found[code] = append(found[code], e)
			}
		}
	}
	return found
}

// vary changes digits and length of a number at random.
func vary(r *rand.Rand, example string) []byte {
	b := []byte(example)
	for range r.IntN(3) {
		b[r.IntN(len(b))] = byte('0' + r.IntN(10))
	}
	switch r.IntN(8) {
	case 0:
		b = append(b, byte('0'+r.IntN(10)))
	case 1:
		b = b[:len(b)-1]
	case 2:
		b = append([]byte{byte('0' + r.IntN(10))}, b...)
	}
	return b[:min(len(b), maxDialled)]
}

// TestPlansAreTheLibrarys: validity agrees for every country code, for variations of valid numbers and random ones.
func TestPlansAreTheLibrarys(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	valid := 0
	for code, numbers := range examples(t) {
		for range 400 {
			n := vary(r, numbers[r.IntN(len(numbers))])
			want := phonenumbers.IsValidNumber(numberOf(code, n))
			if got := planOf(code).valid(n); got != want {
				t.Errorf("+%d %s: %v, the library says %v", code, n, got, want)
			}
			if want {
				valid++
			}
		}
	}
	if valid < 30_000 {
		t.Errorf("only %d numbers are valid: that compares nothing", valid)
	}
	for _, code := range []int{0, 2, 999} {
		if planOf(code).valid([]byte("5550132000")) {
			t.Errorf("+%d has numbers", code)
		}
	}
}

// before returns a possible prefix of a dialled number.
func before(r *rand.Rand, code int) []byte {
	all := []string{"", "", "0", "1", "8", "00", "011", "810", "0015", fmt.Sprint(code), fmt.Sprint("00", code), "0" + fmt.Sprint(code), fmt.Sprint(code, "0")}
	b := []byte(all[r.IntN(len(all))])
	for range max(0, r.IntN(8)-4) {
		b = append(b, byte('0'+r.IntN(10)))
	}
	return b
}

// TestNumbersOfRegionsAreTheLibrarys: validity agrees for numbers as dialled in each region, with and without prefixes.
func TestNumbersOfRegionsAreTheLibrarys(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	numbers, known, valid := examples(t), 0, 0
	for name := range phonenumbers.GetSupportedRegions() {
		code := phonenumbers.GetCountryCodeForRegion(name)
		for range racetest.Less(200) {
			n := vary(r, numbers[code][r.IntN(len(numbers[code]))])
			n = append(before(r, code), n...)
			n = n[:min(len(n), maxDialled)]
			got := isOf(name, n)
			if _, ok := regionOf(name).dialled(n); ok {
				known++
			}
			p, err := phonenumbers.Parse(string(n), name)
			if want := err == nil && phonenumbers.IsValidNumberForRegion(p, name); got != want {
				t.Errorf("%s in %s: %v, the library says %v", n, name, got, want)
			} else if want {
				valid++
			}
		}
	}
	if isOf("XX", []byte("0301234567")) || isOf("001", []byte("80012345678")) {
		t.Error("regions that there are not have numbers")
	}
	if known < racetest.Less(20_000) || valid < racetest.Less(5_000) {
		t.Errorf("%d are decided without being parsed, %d are valid: that compares little", known, valid)
	}
}

// TestPatternsOfOtherThanDigitsAreNoTables, nor are those with too many states.
func TestPatternsOfOtherThanDigitsAreNoTables(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{`[2-9]\d{6}`: true, `1|([2-9]\d{6})$`: false, `(`: false, `(?:[01]*1[01]{14})`: false} {
		if _, ok := newTable(pattern); ok != want {
			t.Errorf("%s: %v", pattern, ok)
		}
	}
}

// labelledSlowly is the definition of labelled, label by label.
func labelledSlowly(text string, i, gap int, all []string) bool {
	before := bytes.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, []byte(text[max(0, i-gap-maxLabel):i]))
	return slices.ContainsFunc(all, func(label string) bool {
		for at := len(before) - len(label); at >= 0 && len(before)-at-len(label) <= gap; at-- {
			if string(before[at:at+len(label)]) == label {
				return at == 0 || classes[before[at-1]]&(letter|digit) == 0
			}
			if classes[before[at+len(label)-1]]&digit != 0 {
				return false
			}
		}
		return false
	})
}

func TestLabelsAreFoundAsOneByOne(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	pieces := append([]string{" ", ":", "x", "1", "X", "  ", ".", "tel", "TEL ", "xtel", "private ", "key", "1tel"}, phoneLabels.all...)
	found := 0
	for range 30_000 {
		var b strings.Builder
		for range 1 + r.IntN(6) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		text := b.String()
		if !utf8ends(text) {
			continue
		}
		s := scan{text: text + "5"}
		for _, gap := range []int{2, 10, 14} {
			for _, l := range []*labels{phoneLabels, ssnLabels, versionLabels, keyLabels, noKeyLabels} {
				want := labelledSlowly(text, len(text), gap, l.all)
				if got := s.labelled(len(text), gap, l); got != want {
					t.Fatalf("%q, gap %d, %q…: %v, want %v", text, gap, l.all[0], got, want)
				} else if got {
					found++
				}
			}
		}
	}
	if found < 3_000 {
		t.Errorf("only %d have a label", found)
	}
}

// utf8ends reports whether the window before a value has whole characters, as bytes.Map requires.
func utf8ends(text string) bool {
	for _, gap := range []int{2, 10, 14} {
		if at := max(0, len(text)-gap-maxLabel); at < len(text) && text[at]&0xc0 == 0x80 {
			return false
		}
	}
	return true
}

// TestGroupsOfDigitsTakeNoMemory: a text may have millions of them.
func TestGroupsOfDigitsTakeNoMemory(t *testing.T) {
	for _, text := range []string{"1 ", "123 ", "123 456 789 012 345\n", "+49 1 ", "1,2,3\n"} {
		text = strings.Repeat(text, 1000)
		d := Detectors{Types: Builtin}
		if n := testing.AllocsPerRun(3, func() { _, _ = d.Find(t.Context(), text, nil) }); n > 3 {
			t.Errorf("%.10q: %v allocations", text, n)
		}
	}
}
