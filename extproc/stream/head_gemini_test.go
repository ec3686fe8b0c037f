package stream

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/header"
)

func TestPathsOfGooglesClients(t *testing.T) {
	for _, row := range []struct {
		about, path string
		header      header.List
		want, query string
		dialect     chat.Dialect
		key         string
	}{
		{about: "an answer", path: "/v1beta/models/m:generateContent", want: "/v1beta/models/m:generateContent", dialect: chat.Gemini},
		{about: "the stable version", path: "/v1/models/m:generateContent", want: "/v1beta/models/m:generateContent", dialect: chat.Gemini},
		{about: "a base URL with the version", path: "/v1beta/v1beta/models/m:countTokens", want: "/v1beta/models/m:countTokens", dialect: chat.Gemini},
		{about: "a base URL with the other version", path: "/v1/v1beta/models/m:countTokens", want: "/v1beta/models/m:countTokens", dialect: chat.Gemini},
		{about: "a base URL with another's version", path: "/v1beta/v1/models/m:countTokens", want: "/v1beta/models/m:countTokens", dialect: chat.Gemini},
		{about: "a key in the query", path: "/v1beta/models/m:streamGenerateContent?alt=sse&key=a%2Bb", want: "/v1beta/models/m:streamGenerateContent", query: "alt=sse", dialect: chat.Gemini, key: "a+b"},
		{about: "a key in both places", path: "/v1beta/models?key=a", header: header.List{{Name: "x-goog-api-key", Value: "b"}}, want: "/v1beta/models", dialect: chat.Gemini, key: "b"},
		{about: "the list of the stable version", path: "/v1/models", header: header.List{{Name: "x-goog-api-key", Value: "b"}}, want: "/v1beta/models", dialect: chat.Gemini, key: "b"},
		{about: "the list for others", path: "/v1/models", want: "/v1/models", dialect: chat.OpenAI},
		{about: "a query of others", path: "/v1/usage?key=a", want: "/v1/usage", query: "key=a", dialect: chat.OpenAI},
	} {
		t.Run(row.about, func(t *testing.T) {
			hd := NewHead(append(header.List{{Name: ":method", Value: "POST"}, {Name: ":path", Value: row.path}}, row.header...), "")
			if hd.Path != row.want || hd.Query != row.query || hd.Dialect() != row.dialect || hd.Header.Get("x-goog-api-key") != row.key {
				t.Errorf("got %s?%s for %s with the key %q", hd.Path, hd.Query, hd.Dialect(), hd.Header.Get("x-goog-api-key"))
			}
			if row.key != "" && strings.Contains(hd.Query, row.key) {
				t.Error("the key is in the query")
			}
		})
	}
}
