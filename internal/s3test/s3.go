// Package s3test is a fake object store for tests, which verifies the signature of each request.
package s3test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Store is a fake S3-compatible object store with one bucket. It accepts objects whose requests are signed as in
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, and computes the signature independently.
type Store struct {
	URL string
	Now func() time.Time // its clock; set before a call

	mu      sync.Mutex
	objects map[string]string
	puts    int
	refuse  int // number of puts to answer with 503
}

// The settings of the fake object store.
const (
	Bucket = "usage"
	Region = "eu-test-1"
	Access = "AKPLANTEDACCESS"
	Secret = "PLANTEDSECRET/0123456789+abcdef"
)

// Start starts a store with an empty bucket.
func Start(t testing.TB) *Store {
	t.Helper()
	s := &Store{Now: time.Now, objects: map[string]string{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Refuse refuses the next n objects.
func (s *Store) Refuse(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = n
}

// Objects returns the names of the stored objects, in order, and the number of puts.
func (s *Store) Objects() (names []string, puts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.objects {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, s.puts
}

// Object returns an object's content; "" if there is none.
func (s *Store) Object(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name]
}

// ServeHTTP implements http.Handler.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, "IncompleteBody", http.StatusBadRequest)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/"+Bucket+"/")
	switch why := unsigned(r, body, s.Now()); {
	case why != "":
		http.Error(w, "<Error><Code>"+why+"</Code><AWSAccessKeyId>"+Access+"</AWSAccessKeyId></Error>", http.StatusForbidden)
		return
	case r.Method != http.MethodPut || !ok || name == "" || r.URL.RawQuery != "":
		http.Error(w, "<Error><Code>NoSuchBucket</Code></Error>", http.StatusNotFound)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 {
		s.refuse--
		http.Error(w, "<Error><Code>SlowDown</Code></Error>", http.StatusServiceUnavailable)
		return
	}
	s.objects[name] = string(body)
	s.puts++
}

// unsigned returns the error code of a request without a valid signature; "" for a valid one.
func unsigned(r *http.Request, body []byte, now time.Time) string {
	const form = "20060102T150405Z"
	stamp := r.Header.Get("X-Amz-Date")
	at, err := time.Parse(form, stamp)
	if err != nil {
		return "AccessDenied"
	}
	if d := now.Sub(at).Abs(); d > 15*time.Minute {
		return "RequestTimeTooSkewed"
	}
	sum := sha256.Sum256(body)
	if r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]) {
		return "XAmzContentSHA256Mismatch"
	}
	auth, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	fields := map[string]string{}
	for field := range strings.SplitSeq(auth, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	scope := stamp[:8] + "/" + Region + "/s3/aws4_request"
	if !ok || fields["Credential"] != Access+"/"+scope {
		return "InvalidAccessKeyId"
	}
	signed := strings.Split(fields["SignedHeaders"], ";")
	for _, name := range []string{"host", "x-amz-content-sha256", "x-amz-date"} {
		if !slices.Contains(signed, name) {
			return "AccessDenied"
		}
	}
	if !slices.IsSorted(signed) || !hmac.Equal([]byte(fields["Signature"]), []byte(signature(r, signed, scope))) {
		return "SignatureDoesNotMatch"
	}
	return ""
}

// signature returns the expected signature of a request with these headers.
func signature(r *http.Request, signed []string, scope string) string {
	var canonical strings.Builder
	canonical.WriteString(r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n")
	for _, name := range signed {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = r.Header.Get("Content-Length")
		}
		canonical.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	canonical.WriteString("\n" + strings.Join(signed, ";") + "\n" + r.Header.Get("X-Amz-Content-Sha256"))
	sum := sha256.Sum256([]byte(canonical.String()))
	text := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
	key := []byte("AWS4" + Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, text))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
