package errbody_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/header"
)

func compressed(t testing.TB, w io.WriteCloser, b *bytes.Buffer, text string) []byte {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestK49ACompressedErrorIsReadOrEmpty(t *testing.T) {
	const plain = `{"error":{"message":"too long","type":"invalid_request_error"}}`
	var g, z, bomb bytes.Buffer
	inGzip := compressed(t, gzip.NewWriter(&g), &g, plain)
	inZlib := compressed(t, zlib.NewWriter(&z), &z, plain)
	inBomb := compressed(t, gzip.NewWriter(&bomb), &bomb, strings.Repeat(" ", 64<<20)+plain)
	for _, tt := range []struct {
		name, encoding string
		body           []byte
		want           string
	}{
		{"gzip", "gzip", inGzip, "too long"},
		{"another spelling", " GZIP", inGzip, "too long"},
		{"deflate", "deflate", inZlib, "too long"},
		{"none", "identity", []byte(plain), "too long"},
		{"a claim that is not true", "gzip", []byte(plain), ""},
		{"cut before anything is said", "gzip", inGzip[:10], ""},
		{"more than is worth reading", "gzip", inBomb, ""},
		{"an encoding that is not read", "br", []byte("\x10" + plain), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := errbody.Parse(400, header.List{{Name: "content-encoding", Value: tt.encoding}}, tt.body)
			if e.Message != tt.want || e.Status != 400 {
				t.Errorf("got %+v, want %q", e, tt.want)
			}
		})
	}
}

func FuzzACompressedBodyIsBounded(f *testing.F) {
	var b bytes.Buffer
	f.Add("gzip", compressed(f, gzip.NewWriter(&b), &b, "x"))
	f.Add("deflate", []byte{0x78, 0x9c})
	f.Fuzz(func(t *testing.T, encoding string, body []byte) {
		e := errbody.Parse(500, header.List{{Name: "content-encoding", Value: encoding}}, body)
		if len(e.Message) > 2000 || e.Status != 500 {
			t.Errorf("%d bytes of message, status %d", len(e.Message), e.Status)
		}
	})
}
