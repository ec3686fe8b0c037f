package stored

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"bardo.money/gateway/internal/formdata"
	"bardo.money/gateway/internal/jsonx"
)

// Upload is a multipart form with a file.
type Upload struct {
	ContentType string // with the boundary
	Refs        []Ref  // references in the requests of a batch file
}

// maxPurpose is the longest purpose of a file, in bytes.
const maxPurpose = 64

// ReadUpload parses a form. A file with purpose batch has a request in each line, whose references are collected.
func ReadUpload(contentType string, body []byte) (u Upload, err error) {
	form, err := formdata.Parse(contentType, body)
	if err != nil {
		return u, err
	}
	names := map[string]bool{}
	var file []byte
	purpose := ""
	for i := range form.Parts {
		part := &form.Parts[i]
		name := strings.ToLower(part.Name)
		if names[name] {
			return u, fmt.Errorf("the form has %.64q twice", part.Name)
		}
		names[name] = true
		switch name {
		case "file":
			file = part.Content
		case "purpose":
			purpose = string(part.Content)
		}
	}
	if len(purpose) > maxPurpose || strings.Trim(purpose, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		return u, errors.New("purpose must be a word")
	}
	u.ContentType = form.ContentType
	if purpose == "batch" {
		u.Refs, err = batchRefs(file)
	}
	return u, err
}

// LineError is an invalid line of a batch file.
type LineError struct {
	Line int
	Err  error
}

// Error names the line.
func (e *LineError) Error() string { return fmt.Sprintf("line %d of the batch: %v", e.Line, e.Err) }

// Unwrap returns the line's own error.
func (e *LineError) Unwrap() error { return e.Err }

// batchRefs returns the references in the lines of a batch file.
func batchRefs(file []byte) (refs []Ref, err error) {
	n := 0
	for line := range bytes.SplitSeq(file, []byte("\n")) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		doc, err := jsonx.Unique.Scan(line)
		if err != nil {
			return nil, &LineError{n, err}
		}
		if !Named(&doc, Items) {
			continue
		}
		named, err := Refs(&doc)
		if err != nil {
			return nil, &LineError{n, err}
		}
		for _, r := range named {
			r.At = fmt.Sprintf("line %d: %s", n, r.At)
			refs = append(refs, r)
		}
	}
	return refs, nil
}
