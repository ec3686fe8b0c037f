package defi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is an operator's file of facts, in YAML or JSON.
type File struct {
	Chains    []Chain    `yaml:"chains"`
	Tokens    []Token    `yaml:"tokens"`
	Protocols []Protocol `yaml:"protocols"`
}

// Chain is a chain, whose names in a conversation select one of several tokens of one symbol.
type Chain struct {
	ID      int64    `yaml:"id"`
	Name    string   `yaml:"name"`
	Aliases []string `yaml:"aliases"`
}

// Token is a token on one chain.
type Token struct {
	Symbol   string `yaml:"symbol"`
	Name     string `yaml:"name"`
	Chain    int64  `yaml:"chain"`
	Address  string `yaml:"address"`
	Decimals *int   `yaml:"decimals"`
	Note     string `yaml:"note"`
}

// Protocol is a contract of a protocol on one chain.
type Protocol struct {
	Name    string   `yaml:"name"`
	Aliases []string `yaml:"aliases"`
	Chain   int64    `yaml:"chain"`
	Address string   `yaml:"address"`
	Note    string   `yaml:"note"`
}

// The bounds of a file.
const (
	MaxFile     = 4 << 20 // bytes
	maxFacts    = 20_000
	maxName     = 64  // bytes of a name, symbol or alias
	maxNote     = 200 // bytes
	maxDecimals = 77  // 10 to this power still fits 256 bits
)

// Facts are the facts of a file, indexed for the search in conversations. Read-only.
type Facts struct {
	byName    map[string][]int // tokens and protocols by symbol, name and alias, case-sensitive
	byAddress map[string][]int // the same by address, in lower case
	chains    map[string]int64 // chains by name and alias, in lower case
	longest   int              // number of words of the longest name
	all       []fact
}

// fact is one line of the file.
type fact struct {
	chain int64
	text  string
}

// Parse parses a file of facts. The error names the problem and its position.
func Parse(b []byte) (*Facts, error) {
	if len(b) > MaxFile {
		return nil, fmt.Errorf("the file has more than %d bytes", MaxFile)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	var file File
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(file.Tokens)+len(file.Protocols) == 0 {
		return nil, errors.New("the file has neither tokens nor protocols")
	}
	if n := len(file.Tokens) + len(file.Protocols); n > maxFacts {
		return nil, fmt.Errorf("the file has %d tokens and protocols, more than %d", n, maxFacts)
	}
	f := &Facts{byName: map[string][]int{}, byAddress: map[string][]int{}, chains: map[string]int64{}}
	names, err := f.addChains(file.Chains)
	if err != nil {
		return nil, err
	}
	for i := range file.Tokens {
		if err := f.addToken(&file.Tokens[i], names); err != nil {
			return nil, fmt.Errorf("tokens[%d]: %w", i, err)
		}
	}
	for i := range file.Protocols {
		if err := f.addProtocol(&file.Protocols[i], names); err != nil {
			return nil, fmt.Errorf("protocols[%d]: %w", i, err)
		}
	}
	return f, nil
}

// addChains adds the names of chains; by has their names by id.
func (f *Facts) addChains(all []Chain) (by map[int64]string, err error) {
	by = map[int64]string{}
	for i, c := range all {
		if c.ID <= 0 {
			return nil, fmt.Errorf("chains[%d]: id: expected a number above 0", i)
		}
		if by[c.ID] != "" {
			return nil, fmt.Errorf("chains[%d]: id: chain %d is there twice", i, c.ID)
		}
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			if err := checkName("name", name); err != nil {
				return nil, fmt.Errorf("chains[%d]: %w", i, err)
			}
			key := strings.ToLower(strings.Join(words(name), " "))
			if other, ok := f.chains[key]; ok && other != c.ID {
				return nil, fmt.Errorf("chains[%d]: %q is chain %d, too", i, name, other)
			}
			f.chains[key] = c.ID
			f.longest = max(f.longest, len(words(name)))
		}
		by[c.ID] = c.Name
	}
	return by, nil
}

func (f *Facts) addToken(t *Token, chains map[int64]string) error {
	if err := errors.Join(checkName("symbol", t.Symbol), checkNote(t.Note), checkChain(t.Chain), checkAddress(t.Address)); err != nil {
		return err
	}
	if t.Name != "" {
		if err := checkName("name", t.Name); err != nil {
			return err
		}
	}
	if t.Decimals == nil || *t.Decimals < 0 || *t.Decimals > maxDecimals {
		return fmt.Errorf("decimals: expected a number from 0 to %d", maxDecimals)
	}
	text := fmt.Sprintf("%s%s on %s: address %s, %d decimals", t.Symbol, inBrackets(t.Name), onChain(t.Chain, chains), t.Address, *t.Decimals)
	return f.add(t.Chain, t.Address, withNote(text, t.Note), t.Symbol)
}

func (f *Facts) addProtocol(p *Protocol, chains map[int64]string) error {
	if err := errors.Join(checkName("name", p.Name), checkNote(p.Note), checkChain(p.Chain), checkAddress(p.Address)); err != nil {
		return err
	}
	for _, a := range p.Aliases {
		if err := checkName("aliases", a); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%s on %s: address %s", p.Name, onChain(p.Chain, chains), p.Address)
	return f.add(p.Chain, p.Address, withNote(text, p.Note), append([]string{p.Name}, p.Aliases...)...)
}

// add adds a fact under its names and its address.
func (f *Facts) add(chain int64, address, text string, names ...string) error {
	place := strings.ToLower(address)
	if slices.ContainsFunc(f.byAddress[place], func(i int) bool { return f.all[i].chain == chain }) {
		return fmt.Errorf("address: %s is there twice on chain %d", address, chain)
	}
	at := len(f.all)
	f.all = append(f.all, fact{chain, text})
	f.byAddress[place] = append(f.byAddress[place], at)
	for _, name := range names {
		key := strings.Join(words(name), " ")
		if !slices.Contains(f.byName[key], at) {
			f.byName[key] = append(f.byName[key], at)
		}
		f.longest = max(f.longest, len(words(name)))
	}
	return nil
}

func inBrackets(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

func withNote(text, note string) string {
	if note == "" {
		return text
	}
	return text + "; " + note
}

// onChain is a chain's name and id.
func onChain(id int64, names map[int64]string) string {
	return cmp.Or(names[id], "chain") + " (chain id " + strconv.FormatInt(id, 10) + ")"
}

func checkName(key, name string) error {
	switch {
	case strings.TrimSpace(name) == "" || len(words(name)) == 0:
		return fmt.Errorf("%s: expected a name", key)
	case len(name) > maxName:
		return fmt.Errorf("%s: more than %d bytes", key, maxName)
	case strings.ContainsFunc(name, isControl):
		return fmt.Errorf("%s: has control characters", key)
	}
	return nil
}

func checkNote(note string) error {
	if len(note) > maxNote || strings.ContainsFunc(note, isControl) {
		return fmt.Errorf("note: expected one line of at most %d bytes", maxNote)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func checkChain(id int64) error {
	if id <= 0 {
		return errors.New("chain: expected the chain's id, a number above 0")
	}
	return nil
}

var addressForm = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)

func checkAddress(a string) error {
	if !addressForm.MatchString(a) {
		return errors.New("address: expected 0x and 40 hexadecimal digits")
	}
	return nil
}
