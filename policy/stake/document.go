package stake

import (
	"encoding/json"
	"errors"
	"fmt"

	"bardo.money/gateway/policy"
)

// Path is the path of Venice's key API, below the base URL (docs.venice.ai/api-reference/endpoint/api_keys).
const Path = "/api_keys"

// MaxDocument limits what is read of an answer, in bytes: an account has at most 500 keys.
const MaxDocument = 1 << 20

// amounts is a limit in both currencies of a Venice account: one DIEM pays for one dollar.
type amounts struct {
	USD  policy.Micro `json:"usd"`
	DIEM policy.Micro `json:"diem"`
}

// epoch is Venice's day, after which spending is reset.
const epoch = "EPOCH"

// NewKey returns the document that requests a key.
func NewKey(name string, limit policy.Micro) ([]byte, error) {
	return json.Marshal(struct {
		Type        string  `json:"apiKeyType"`
		Description string  `json:"description"`
		Limit       amounts `json:"consumptionLimit"`
		Period      string  `json:"limitPeriod"`
	}{"INFERENCE", name, amounts{limit, limit}, epoch})
}

// NewLimit returns the document that sets another limit of a key.
func NewLimit(id string, limit policy.Micro) ([]byte, error) {
	return json.Marshal(struct {
		ID     string  `json:"id"`
		Limit  amounts `json:"consumptionLimit"`
		Period string  `json:"limitPeriod"`
	}{id, amounts{limit, limit}, epoch})
}

// ParseNew reads the answer to NewKey. The secret is in no error.
func ParseNew(b []byte) (id, secret string, err error) {
	var doc struct {
		Data struct {
			ID  string `json:"id"`
			Key string `json:"apiKey"`
		} `json:"data"`
	}
	if json.Unmarshal(b, &doc) != nil {
		return "", "", errors.New("the new key: not the document that Venice describes")
	}
	if doc.Data.ID == "" || doc.Data.Key == "" {
		return "", "", errors.New("the new key: no id or no key")
	}
	return doc.Data.ID, doc.Data.Key, nil
}

// ParseNamed reads a list of keys, and returns the ids of those with a description.
func ParseNamed(b []byte, name string) (ids []string, err error) {
	var doc struct {
		Data []struct {
			ID          string `json:"id"`
			Description string `json:"description"`
		} `json:"data"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("the list of keys: %w", err)
	}
	if doc.Data == nil {
		return nil, errors.New("the list of keys: no data")
	}
	for _, k := range doc.Data {
		if k.Description == name && k.ID != "" {
			ids = append(ids, k.ID)
		}
	}
	return ids, nil
}
