package pii

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nyaruka/phonenumbers"
	"github.com/tyler-smith/go-bip39/wordlists"
)

var update = flag.Bool("update", false, "write plans.txt anew, of the library's metadata")

func TestPhraseTextIsTheLibrarys(t *testing.T) {
	t.Parallel()
	want := strings.Join(wordlists.English, "\n") + "\n"
	if phraseText != want || len(phraseWords) != len(wordlists.English) || phraseWords["zoo"] != 2047 {
		t.Error("phrase.txt is not the library's list")
	}
}

// TestPlansTextIsTheLibrarys: run with -update after an update of the library.
func TestPlansTextIsTheLibrarys(t *testing.T) {
	t.Parallel()
	want := plansOfLibrary(t)
	if *update {
		if err := os.WriteFile("plans.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if plansText != want {
		t.Error("plans.txt is not the library's metadata: go test ./extproc/pii -run PlansText -update")
	}
}

// TestEveryPatternOfPlansTextIsUnderstood: an unsupported pattern matches no number.
func TestEveryPatternOfPlansTextIsUnderstood(t *testing.T) {
	t.Parallel()
	n := 0
	for line := range strings.Lines(plansText) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ";")
		if len(f) <= fieldKinds {
			t.Errorf("%.20s has %d fields", line, len(f))
			continue
		}
		tables := []string{f[fieldLeading]}
		for _, d := range append(f[fieldKinds:], f[fieldGeneral]) {
			_, pattern, _ := strings.Cut(d, " ")
			tables = append(tables, pattern)
		}
		for _, pattern := range tables {
			if _, ok := newTable(pattern); !ok {
				t.Errorf("%s: %s is no table", f[fieldName], pattern)
			}
		}
		p := parsing{international: f[fieldInternational], trunk: f[fieldTrunk]}
		if p.compile(); p.abroadRE == nil || p.trunk != "" && p.trunkRE == nil {
			t.Errorf("%s: %s or %s is no pattern", f[fieldName], p.international, p.trunk)
		}
		if lengthsOf(strings.SplitN(f[fieldGeneral], " ", 2)[0]) == 0 {
			t.Errorf("%s: numbers have no lengths", f[fieldName])
		}
		n++
	}
	if n < 245 {
		t.Errorf("plans.txt has %d regions", n)
	}
}

// plansOfLibrary returns the library's metadata in the format of newRegion: the regions of each country code in the library's order.
func plansOfLibrary(t *testing.T) string {
	t.Helper()
	all, err := phonenumbers.MetadataCollection()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for code := range plans {
		for _, name := range phonenumbers.GetRegionCodesForCountryCode(code) {
			i := slices.IndexFunc(all.GetMetadata(), func(m *phonenumbers.PhoneMetadata) bool { return m.GetId() == name && int(m.GetCountryCode()) == code })
			if i < 0 {
				t.Fatalf("%d has no metadata of %s", code, name)
			}
			lines = append(lines, regionText(t, all.GetMetadata()[i]))
		}
	}
	return strings.Join(lines, "")
}

func regionText(t *testing.T, m *phonenumbers.PhoneMetadata) string {
	t.Helper()
	kinds := []*phonenumbers.PhoneNumberDesc{
		m.GetPremiumRate(), m.GetTollFree(), m.GetSharedCost(), m.GetVoip(), m.GetPersonalNumber(), m.GetPager(), m.GetUan(), m.GetVoicemail(), m.GetFixedLine(),
	}
	if !m.GetSameMobileAndFixedLinePattern() {
		kinds = append(kinds, m.GetMobile())
	}
	fields := []string{
		fmt.Sprint(m.GetCountryCode()), m.GetId(), m.GetInternationalPrefix(), m.GetNationalPrefixForParsing(), m.GetNationalPrefixTransformRule(), m.GetLeadingDigits(),
		numbersText(t, m.GetGeneralDesc()), lengthsText(m.GetGeneralDesc().GetPossibleLengthLocalOnly()),
	}
	for _, d := range kinds {
		if slices.Contains([]string{"", "NA"}, d.GetNationalNumberPattern()) || slices.Contains(d.GetPossibleLength(), -1) { // no numbers of this kind
			continue
		}
		fields = append(fields, numbersText(t, d))
	}
	for _, f := range fields {
		if strings.ContainsAny(f, ";\n") {
			t.Fatalf("%s: %q has a separator", m.GetId(), f)
		}
	}
	return strings.Join(fields, ";") + "\n"
}

// numbersText returns a description of numbers: lengths and pattern.
func numbersText(t *testing.T, d *phonenumbers.PhoneNumberDesc) string {
	t.Helper()
	if d.GetNationalNumberPattern() == "" {
		t.Fatal("numbers without a pattern")
	}
	return lengthsText(d.GetPossibleLength()) + " " + d.GetNationalNumberPattern()
}

func lengthsText(lengths []int32) string {
	var b []string
	for _, n := range slices.SortedFunc(slices.Values(lengths), cmp.Compare[int32]) {
		b = append(b, fmt.Sprint(n))
	}
	return strings.Join(b, ",")
}
