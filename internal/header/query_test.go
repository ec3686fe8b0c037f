package header_test

import (
	"testing"

	"bardo.money/gateway/internal/header"
)

func TestQueryWithoutCredentials(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"": "", "beta=true": "beta=true", "key=secret": "", "beta=true&API_KEY=secret&x=1": "beta=true&x=1", "k%65y=secret&a=b": "a=b", "access_token=secret&token=secret": "",
		"apikey=secret&api-key=secret&%zz=secret": "", "a=key=b": "a=key=b",
	} {
		if got := header.QueryWithoutCredentials(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}
