package jsonx_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/internal/jsonx"
)

// conversation is a body of about 1 MB: turns of 2 kB that consist of a text.
func conversation(text string) []byte {
	turn := `{"role":"user","content":"` + strings.Repeat(text, 2000/len(text)) + `"},`
	body := `{"model":"m","stream":false,"messages":[` + strings.Repeat(turn, 1_000_000/len(turn))
	return []byte(strings.TrimSuffix(body, ",") + `]}`)
}

func BenchmarkScanLarge(b *testing.B) {
	for name, text := range map[string]string{
		"plain":  "The order left the warehouse at 09:30, and its label says that it goes by road. ",
		"prose":  `The order \"4711\" left the warehouse at 09:30;\nits label says: \u201cfragile\u201d, so it goes by road. `,
		"code":   `\tif err := f(\"x\"); err != nil {\n\t\treturn nil, fmt.Errorf(\"a: %w\", err)\n\t}\n`,
		"umlaut": `Die Bestellung verließ das Lager um 9 Uhr; laut Etikett ist sie zerbrechlich und fährt über Köln. `,
	} {
		body := conversation(text)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := jsonx.Scan(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
