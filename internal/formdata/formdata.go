// Package formdata reads multipart/form-data strictly, so that no other reader sees a different form in the same bytes: anything that does not follow
// the standard is an error, with a reason. A Form has the positions of its values in the body, so that one can be changed without touching the rest.
package formdata

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/textproto"
	"strings"
)

// Form is a parsed form.
type Form struct {
	ContentType string // with the boundary, as it is to be forwarded
	Body        []byte
	Parts       []Part // in their order

	delimiter []byte
}

// Part is one value of a form.
type Part struct {
	Name     string
	Filename string
	Content  []byte // of Body
	Start    int    // offset of Content in Body
}

// Limits of a form.
const (
	maxPartHead = 8 << 10
	maxBoundary = 70 // RFC 2046
	maxParts    = 1000
)

// boundaryChars are the allowed characters of a boundary, except spaces.
const boundaryChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'()+_,-./:=?"

var (
	crlf    = []byte("\r\n")
	errForm = errors.New("the form cannot be read: it must begin with its boundary and end with it, with CRLF at each line's end")
)

// Parse reads a form. Its parts alias body.
func Parse(contentType string, body []byte) (*Form, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	switch {
	case err != nil || kind != "multipart/form-data":
		return nil, errors.New("an upload must be multipart/form-data")
	case boundary == "" || len(boundary) > maxBoundary || len(params) > 1 || strings.Trim(boundary, boundaryChars) != "":
		return nil, errors.New("the form needs a boundary, and no other parameter")
	}
	f := &Form{ContentType: mime.FormatMediaType(kind, params), Body: body, delimiter: []byte("--" + boundary)}
	return f, f.read()
}

// read splits the form into parts.
func (f *Form) read() error {
	rest, ok := bytes.CutPrefix(f.Body, append(bytes.Clone(f.delimiter), crlf...))
	if !ok {
		return errForm
	}
	for {
		head, after, ok := bytes.Cut(rest, []byte("\r\n\r\n"))
		if !ok || len(head) > maxPartHead || len(f.Parts) == maxParts {
			return errForm
		}
		end := bytes.Index(after, append([]byte("\r\n"), f.delimiter...))
		if end < 0 || f.holdsBoundary(after[:end]) {
			return errForm
		}
		if err := f.part(head, after[:end], len(f.Body)-len(after)); err != nil {
			return err
		}
		rest = after[end+len(crlf)+len(f.delimiter):]
		switch {
		case bytes.Equal(rest, []byte("--")), bytes.Equal(rest, []byte("--\r\n")):
			return nil
		case !bytes.HasPrefix(rest, crlf):
			return errForm
		}
		rest = rest[len(crlf):]
	}
}

// holdsBoundary reports whether another reader could see a boundary within a value.
func (f *Form) holdsBoundary(content []byte) bool {
	return bytes.HasPrefix(content, f.delimiter) || bytes.Contains(content, append([]byte("\n"), f.delimiter...)) ||
		bytes.Contains(content, append([]byte("\r"), f.delimiter...))
}

// part adds a part.
func (f *Form) part(head, content []byte, start int) error {
	h, err := partHead(head)
	if err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Disposition"))
	name := params["name"]
	switch {
	case err != nil, kind != "form-data", name == "", len(h["Content-Disposition"]) != 1:
		return errors.New("each part of the form needs one Content-Disposition: form-data with a name")
	case !plainEncoding(h.Get("Content-Transfer-Encoding")):
		return fmt.Errorf("the form's part %.64q must not be encoded", name)
	}
	f.Parts = append(f.Parts, Part{Name: name, Filename: params["filename"], Content: content, Start: start})
	return nil
}

// partHead reads the headers of a part. It refuses folded lines, which some readers treat as one line and others as two.
func partHead(head []byte) (textproto.MIMEHeader, error) {
	if bytes.Contains(head, []byte("\n ")) || bytes.Contains(head, []byte("\n\t")) || bytes.Count(head, []byte("\n")) != bytes.Count(head, crlf) || bytes.IndexByte(head, 0) >= 0 {
		return nil, errForm
	}
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(bytes.Clone(head), "\r\n\r\n"...))))
	h, err := r.ReadMIMEHeader()
	if err != nil {
		return nil, errForm
	}
	return h, nil
}

// plainEncoding reports whether a transfer encoding does not change the bytes.
func plainEncoding(name string) bool {
	switch strings.ToLower(name) {
	case "", "binary", "8bit", "7bit":
		return true
	}
	return false
}

// Once returns an error that names a value which occurs twice, in any case; nil if there is none. Names that end in [] are lists.
func (f *Form) Once() error {
	names := map[string]bool{}
	for i := range f.Parts {
		name := strings.ToLower(f.Parts[i].Name)
		if names[name] && !strings.HasSuffix(name, "[]") {
			return fmt.Errorf("the form has %.64q twice", f.Parts[i].Name)
		}
		names[name] = true
	}
	return nil
}

// Find returns the part with exactly this name; nil if there is none.
func (f *Form) Find(name string) *Part {
	for i := range f.Parts {
		if f.Parts[i].Name == name {
			return &f.Parts[i]
		}
	}
	return nil
}

// Replace returns the body with another value of a part.
func (f *Form) Replace(p *Part, value string) []byte {
	out := make([]byte, 0, len(f.Body)-len(p.Content)+len(value))
	out = append(append(out, f.Body[:p.Start]...), value...)
	return append(out, f.Body[p.Start+len(p.Content):]...)
}

// Add returns the body with an additional value before the others.
func (f *Form) Add(name, value string) []byte {
	out := make([]byte, 0, len(f.Body)+len(f.delimiter)+len(name)+len(value)+64)
	out = append(append(out, f.delimiter...), "\r\nContent-Disposition: form-data; name=\""+name+"\"\r\n\r\n"+value+"\r\n"...)
	return append(out, f.Body...)
}
