package objectstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"bardo.money/gateway/internal/config"
)

// bucket is a bucket of an S3-compatible object store (https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html), with path-style addressing.
type bucket struct {
	*config.ObjectStore

	client *http.Client
}

const (
	callTimeout = time.Minute
	maxAnswer   = 4 << 10 // bytes of an error answer
)

func newBucket(c *config.ObjectStore) *bucket {
	return &bucket{c, &http.Client{Timeout: callTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// put stores a CSV object, replacing one with the same name. If it returns nil, the object is stored. now is signed.
func (b *bucket) put(ctx context.Context, name string, text []byte, now time.Time) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, b.Endpoint.String()+"/"+b.Bucket+"/"+b.Prefix+name, bytes.NewReader(text))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	hash := hex.EncodeToString(sum[:])
	req.Header.Set("Content-Type", "text/csv; charset=utf-8")
	req.Header.Set("X-Amz-Content-Sha256", hash)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }) // as S3 requires
	keys := aws.Credentials{AccessKeyID: b.AccessKey.Reveal(), SecretAccessKey: b.SecretKey.Reveal()}
	if err := signer.SignHTTP(ctx, keys, req, hash, "s3", b.Region, now); err != nil {
		return err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the object store answered %d: %.300q", resp.StatusCode, answer)
	}
	return nil
}
