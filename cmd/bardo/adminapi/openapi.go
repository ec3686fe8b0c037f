package adminapi

import (
	_ "embed"
	"net/http"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openapi []byte

// openapiJSON is the description as JSON.
var openapiJSON = sync.OnceValues(func() (out map[string]any, err error) {
	err = yaml.Unmarshal(openapi, &out)
	return out, err
})

func (*api) description(*http.Request) (reply, error) {
	doc, err := openapiJSON()
	return reply{body: doc}, err
}
