package remote

import (
	"net/http"

	"bardo.money/gateway/models"
)

// Read decodes an answer for a client of a model with two dimensions.
func Read(status int, body []byte, tokens string) (models.Vector, error) {
	a, err := read(&http.Response{StatusCode: status, Header: http.Header{headerTokens: {tokens}}}, body)
	if err != nil {
		return models.Vector{}, err
	}
	return vector(&a, 2)
}
