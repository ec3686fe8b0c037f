package bedrock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/header"
)

// signer is safe for concurrent use.
var signer = v4.NewSigner()

// authorize replaces the call's credential: a Bedrock API key is sent as a bearer token, also in Anthropic's format; with AWS credentials, the call is
// signed. Call it after the body is complete.
func authorize(call *provider.Call, method string, at provider.Endpoint, now time.Time) error {
	call.Header = slices.DeleteFunc(call.Header, func(f header.Field) bool { return f.Name == "authorization" || f.Name == "x-api-key" })
	if !at.Key.IsSet() {
		return nil
	}
	keys, ok := credentials(at.Key)
	if !ok {
		call.Header = append(call.Header, header.Field{Name: "authorization", Value: "Bearer " + at.Key.Reveal()})
		return nil
	}
	return sign(call, method, at, keys, now)
}

// credentials reads a key that consists of AWS credentials: an access key's id, its secret and, for temporary ones, a session token, with spaces
// between. ok is false for an API key.
func credentials(key provider.Secret) (c aws.Credentials, ok bool) {
	parts := strings.Split(key.Reveal(), " ")
	if len(parts) < 2 {
		return c, false
	}
	c.AccessKeyID, c.SecretAccessKey = parts[0], parts[1]
	if len(parts) > 2 {
		c.SessionToken = parts[2]
	}
	return c, true
}

// runtimeHost is in the host names of Bedrock's other endpoint, whose service has another name in signatures: bedrock-runtime.us-east-1.amazonaws.com, and
// vpce-….bedrock-runtime.us-east-1.vpce.amazonaws.com for AWS PrivateLink.
const runtimeHost = "bedrock-runtime"

// sign adds the headers of Signature Version 4 to a call. It signs the host, the path, the body, and no other header that is the client's or the
// format's.
func sign(call *provider.Call, method string, at provider.Endpoint, keys aws.Credentials, now time.Time) error {
	service := "bedrock-mantle"
	if strings.Contains(at.Authority, runtimeHost) {
		service = "bedrock"
	}
	u, err := url.Parse("https://" + at.Authority + call.Path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(call.Body)
	hash := hex.EncodeToString(sum[:])
	r := &http.Request{Method: method, URL: u, Host: at.Authority, Header: http.Header{"X-Amz-Content-Sha256": {hash}}}
	if err := signer.SignHTTP(context.Background(), keys, r, hash, service, at.Region, now); err != nil {
		return err
	}
	for _, name := range []string{"x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "authorization"} {
		if v := r.Header.Get(name); v != "" {
			call.Header = append(call.Header, header.Field{Name: name, Value: v})
		}
	}
	return nil
}
