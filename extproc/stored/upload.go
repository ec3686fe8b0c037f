package stored

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/textproto"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Upload is a form with a file, as the vendors' APIs take it.
type Upload struct {
	ContentType string // with the boundary, as it is to be sent
	Refs        []Ref  // of the requests in a file of a batch
}

// The bounds of a form.
const (
	longestPartHead = 8 << 10
	longestPurpose  = 64
	longestBoundary = 70 // RFC 2046
)

// ReadUpload reads a form. It is strict where readers of forms differ, so that no reader sees another form in it: whatever is not written as
// the standard has it is an error, which says why. A file whose purpose is a batch holds a request in each line, and is walked.
func ReadUpload(contentType string, body []byte) (u Upload, err error) {
	kind, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	switch {
	case err != nil || kind != "multipart/form-data":
		return u, errors.New("an upload must be multipart/form-data")
	case boundary == "" || len(boundary) > longestBoundary || len(params) > 1 || strings.Trim(boundary, boundaryChars) != "":
		return u, errors.New("the form needs a boundary, and no other parameter")
	}
	u.ContentType = mime.FormatMediaType(kind, params)
	var f form
	if err := f.read(body, []byte("--"+boundary)); err != nil {
		return u, err
	}
	if f.purpose == "batch" {
		u.Refs, err = batchRefs(f.file)
	}
	return u, err
}

// boundaryChars are what a boundary may be made of, but for spaces.
const boundaryChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'()+_,-./:=?"

// form is what the gateway wants to know of a form.
type form struct {
	names   map[string]bool
	purpose string
	file    []byte
}

var crlf = []byte("\r\n")

var errNoForm = errors.New("the form cannot be read: it must begin with its boundary and end with it, with CRLF at each line's end")

// read takes a form apart.
func (f *form) read(body, delimiter []byte) error {
	f.names = map[string]bool{}
	rest, ok := bytes.CutPrefix(body, append(bytes.Clone(delimiter), crlf...))
	if !ok {
		return errNoForm
	}
	for {
		head, after, ok := bytes.Cut(rest, []byte("\r\n\r\n"))
		if !ok || len(head) > longestPartHead {
			return errNoForm
		}
		end := bytes.Index(after, append([]byte("\r\n"), delimiter...))
		if end < 0 {
			return errNoForm
		}
		content := after[:end]
		if bytes.HasPrefix(content, delimiter) || bytes.Contains(content, append([]byte("\n"), delimiter...)) || bytes.Contains(content, append([]byte("\r"), delimiter...)) {
			return errNoForm // another reader would see a boundary there
		}
		if err := f.part(head, content); err != nil {
			return err
		}
		rest = after[end+len(crlf)+len(delimiter):]
		switch {
		case bytes.Equal(rest, []byte("--")), bytes.Equal(rest, []byte("--\r\n")):
			return nil
		case !bytes.HasPrefix(rest, crlf):
			return errNoForm
		}
		rest = rest[len(crlf):]
	}
}

// part notes a part by its name.
func (f *form) part(head, content []byte) error {
	h, err := partHead(head)
	if err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Disposition"))
	name := params["name"]
	switch {
	case err != nil, kind != "form-data", name == "", len(h["Content-Disposition"]) != 1:
		return errors.New("each part of the form needs one Content-Disposition: form-data with a name")
	case f.names[strings.ToLower(name)]:
		return fmt.Errorf("the form has %.64q twice", name)
	case !plainEncoding(h.Get("Content-Transfer-Encoding")):
		return fmt.Errorf("the form's part %.64q must not be encoded", name)
	}
	f.names[strings.ToLower(name)] = true
	switch strings.ToLower(name) {
	case "file":
		f.file = content
	case "purpose":
		f.purpose = string(content)
		if len(f.purpose) > longestPurpose || strings.Trim(f.purpose, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			return errors.New("purpose must be a word")
		}
	}
	return nil
}

// partHead reads the headers of a part. A line that goes on in the next is one to some readers and two to others.
func partHead(head []byte) (textproto.MIMEHeader, error) {
	if bytes.Contains(head, []byte("\n ")) || bytes.Contains(head, []byte("\n\t")) || bytes.Count(head, []byte("\n")) != bytes.Count(head, crlf) || bytes.IndexByte(head, 0) >= 0 {
		return nil, errNoForm
	}
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(bytes.Clone(head), "\r\n\r\n"...))))
	h, err := r.ReadMIMEHeader()
	if err != nil {
		return nil, errNoForm
	}
	return h, nil
}

// plainEncoding tells whether a transfer encoding leaves the bytes as they are.
func plainEncoding(name string) bool {
	switch strings.ToLower(name) {
	case "", "binary", "8bit", "7bit":
		return true
	}
	return false
}

// LineError is a line of a batch that cannot be read.
type LineError struct {
	Line int
	Err  error
}

// Error names the line.
func (e *LineError) Error() string { return fmt.Sprintf("line %d of the batch: %v", e.Line, e.Err) }

// Unwrap is the line's own error.
func (e *LineError) Unwrap() error { return e.Err }

// batchRefs is what the lines of a batch name.
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
