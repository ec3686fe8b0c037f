package semeval

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// made makes pairs that look alike and mean different things. They are the same at each call.
func made() (out []Pair) {
	m := maker{rand.New(rand.NewPCG(1, 2))}
	for range 20 {
		a, b := m.two(places)
		currency, other := m.two(currencies)
		who, whom := m.two(people)
		n := 2 + m.IntN(5000)
		out = append(out,
			pair("number", fmt.Sprintf("Withdraw %d %s from the vault", n, currency), fmt.Sprintf("Withdraw %s %s from the vault", m.otherDigit(n), currency)),
			pair("number", fmt.Sprintf("What is %d times %d?", n, n+3), fmt.Sprintf("What is %d times %d?", n, n+4)),
			pair("unit", fmt.Sprintf("Send %d %s to the treasury", n, currency), fmt.Sprintf("Send %d %s to the treasury", n, other)),
			pair("direction", fmt.Sprintf("How do I swap %s for %s?", currency, other), fmt.Sprintf("How do I swap %s for %s?", other, currency)),
			pair("direction", fmt.Sprintf("Find a flight from %s to %s", a, b), fmt.Sprintf("Find a flight from %s to %s", b, a)),
			pair("direction", fmt.Sprintf("Did %s call %s?", who, whom), fmt.Sprintf("Did %s call %s?", whom, who)),
			pair("entity", fmt.Sprintf("What is the population of %s?", a), fmt.Sprintf("How many people live in %s?", b)),
			pair("entity", fmt.Sprintf("What is the phone number of %s?", who), fmt.Sprintf("What is the phone number of %s?", whom)),
			pair("entity", "What is the balance of "+m.address(), ""),
			pair("date", fmt.Sprintf("What happened in %s on %s?", a, m.day(0)), ""),
			pair("negation", fmt.Sprintf("Is it safe to %s?", m.one(deeds)), ""),
			pair("language", fmt.Sprintf("Wie komme ich von %s nach %s?", a, b), fmt.Sprintf("Wie komme ich von %s nach %s?", b, a)),
		)
		m.complete(out[len(out)-12:])
	}
	return out
}

var (
	places     = []string{"Paris", "Tokyo", "Lima", "Oslo", "Cairo", "Boston", "Springfield", "Ulm", "Graz", "Perth"}
	currencies = []string{"ETH", "USDC", "USDT", "DAI", "WBTC", "SOL", "ARB", "OP"}
	people     = []string{"Anna", "Ben", "Carla", "Dmitri", "Emeka", "Fatima", "Grace", "Hiro"}
	deeds      = []string{"eat raw eggs", "sell now", "sign this message", "swim after lunch", "run this command", "trust the bridge", "close the position"}
)

type maker struct{ *rand.Rand }

func (m maker) one(list []string) string { return list[m.IntN(len(list))] }

func (m maker) two(list []string) (a, b string) {
	i := m.IntN(len(list))
	return list[i], list[(i+1+m.IntN(len(list)-1))%len(list)]
}

// otherDigit is a number with one digit changed.
func (m maker) otherDigit(n int) string {
	s := []byte(strconv.Itoa(n))
	i := m.IntN(len(s))
	s[i] = '1' + (s[i]-'0'+byte(m.IntN(8)))%9
	if string(s) == strconv.Itoa(n) {
		return strconv.Itoa(n) + "0"
	}
	return string(s)
}

func (m maker) address() string {
	b := []byte("0x")
	for range 40 {
		b = append(b, "0123456789abcdef"[m.IntN(16)])
	}
	return string(b)
}

func (m maker) day(after int) string {
	return time.Date(2024, 1, 1+after, 0, 0, 0, 0, time.UTC).Format("January 2, 2006")
}

// complete makes the second questions that follow from the first: another digit of an address, another day, a negation.
func (m maker) complete(pairs []Pair) {
	for i := range pairs {
		p := &pairs[i]
		if p.Second != "" {
			continue
		}
		switch p.Category {
		case "entity":
			b := []byte(p.First)
			at := len(b) - 1 - m.IntN(40)
			b[at] = "123456789abcdef0"[m.IntN(15)]
			if string(b) == p.First {
				b[at] = '0'
			}
			*p = pair(p.Category, p.First, string(b))
		case "date":
			first := p.First[:len(p.First)-len(m.day(0))-1]
			n := m.IntN(360)
			*p = pair(p.Category, first+m.day(n)+"?", first+m.day(n+1)+"?")
		case "negation":
			*p = pair(p.Category, p.First, "Is it not safe"+p.First[len("Is it safe"):])
		}
	}
}
