// Package sigv4 checks signatures of AWS's Signature Version 4 as a server does
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html). It is written from that document, without AWS's library.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Key are the credentials that a service accepts in signatures.
type Key struct{ ID, Secret, Token, Region, Service string }

const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeLayout = "20060102T150405Z"
	maxAge     = 5 * time.Minute
)

// Request is a request as it arrived at a time.
type Request struct {
	Method, Host, Path, RawQuery string // Path is decoded

	Header http.Header
	Body   []byte
	Time   time.Time
}

// IsSigned reports whether a request is signed instead of carrying a key.
func IsSigned(h http.Header) bool { return strings.HasPrefix(h.Get("Authorization"), algorithm) }

// Check returns why a request's signature is refused, in AWS's words; "" if it is right. The answer to a wrong signature quotes what should have been signed.
func (k *Key) Check(r *Request) string {
	fields := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(r.Header.Get("Authorization"), algorithm+" "), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	at, err := time.Parse(timeLayout, r.Header.Get("X-Amz-Date"))
	if err != nil || r.Time.Sub(at).Abs() > maxAge {
		return fmt.Sprintf("Signature expired: %s is not within 5 minutes of %s", r.Header.Get("X-Amz-Date"), r.Time.UTC().Format(timeLayout))
	}
	scope := strings.Join([]string{at.Format("20060102"), k.Region, k.Service, "aws4_request"}, "/")
	if fields["Credential"] != k.ID+"/"+scope {
		return fmt.Sprintf("Credential should be scoped to a valid region and service, not %s", fields["Credential"])
	}
	if r.Header.Get("X-Amz-Security-Token") != k.Token {
		return "The security token included in the request is invalid."
	}
	body := sha256.Sum256(r.Body)
	if hash := r.Header.Get("X-Amz-Content-Sha256"); hash != hex.EncodeToString(body[:]) {
		return "The provided 'x-amz-content-sha256' header does not match what was computed."
	}
	canonical := r.canonical(strings.Split(fields["SignedHeaders"], ";"))
	hash := sha256.Sum256([]byte(canonical))
	key := []byte("AWS4" + k.Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = hmacSHA256(key, part)
	}
	signature := hmacSHA256(key, strings.Join([]string{algorithm, at.Format(timeLayout), scope, hex.EncodeToString(hash[:])}, "\n"))
	if fields["Signature"] != hex.EncodeToString(signature) {
		return fmt.Sprintf("The request signature we calculated does not match the signature you provided. The Canonical String for this request should have been\n'%s'", canonical)
	}
	return ""
}

// canonical returns the canonical request, with these of its headers.
func (r *Request) canonical(signed []string) string {
	var b strings.Builder
	segments := strings.Split(r.Path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	b.WriteString(r.Method + "\n" + strings.Join(segments, "/") + "\n" + r.RawQuery + "\n")
	for _, name := range signed {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		b.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	return b.String() + "\n" + strings.Join(signed, ";") + "\n" + r.Header.Get("X-Amz-Content-Sha256")
}

func hmacSHA256(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
