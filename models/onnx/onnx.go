// Package onnx runs models in ONNX Runtime, a C library that is loaded with the first model. It is the only package that knows the library. The data
// path in Envoy's process does not contain it: internal/arch tests that.
package onnx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// minVersion is the oldest library version that the bindings support.
const minVersion = "1.24"

// loaded is the library of this process: there can be only one, and it is never unloaded.
var loaded struct {
	sync.Mutex
	path string
}

// Load loads the library, and returns its version. A second call with the same path returns the same; one with another path fails.
// Safe for concurrent use.
func Load(path string) (version string, err error) {
	loaded.Lock()
	defer loaded.Unlock()
	switch loaded.path {
	case path:
		return ort.GetVersion(), nil
	case "":
	default:
		return "", fmt.Errorf("ONNX Runtime was loaded from %s before, and cannot be replaced by %s while this process runs", loaded.path, path)
	}
	ort.SetSharedLibraryPath(path)
	if err := ort.InitializeEnvironment(ort.WithLogLevelError()); err != nil {
		if strings.Contains(err.Error(), "setting ORT API base") { // the library lacks this version of its interface
			return "", fmt.Errorf("the ONNX Runtime in %s is too old: version %s or newer is needed", path, minVersion)
		}
		return "", fmt.Errorf("ONNX Runtime: %w", err)
	}
	if err := shareMemory(); err != nil {
		return "", fmt.Errorf("ONNX Runtime: %w", errors.Join(err, ort.DestroyEnvironment()))
	}
	loaded.path = path
	return ort.GetVersion(), nil
}

// Session is a model in memory, with one thread. One Run at a time.
type Session struct {
	session *ort.DynamicAdvancedSession
	inputs  []string // those of names that the model has
}

// names are the inputs that a model may have. Ids and mask are required.
var names = []string{"input_ids", "attention_mask", "token_type_ids"}

// Open loads a model from a file, for a named output. The library must be loaded.
func Open(path, output string) (*Session, error) {
	s := new(Session)
	if err := s.open(path, output); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (s *Session) open(path, output string) error {
	in, out, err := signature(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if slices.Contains(in, name) {
			s.inputs = append(s.inputs, name)
		}
	}
	if len(s.inputs) != len(in) || !slices.Equal(s.inputs[:min(2, len(s.inputs))], names[:2]) {
		return fmt.Errorf("expected the inputs %s, it has %s", strings.Join(names, ", "), strings.Join(in, ", "))
	}
	if !slices.Contains(out, output) {
		return fmt.Errorf("it has no output %s", output)
	}
	options, err := newOptions()
	if err != nil {
		return err
	}
	defer func() { _ = options.Destroy() }()
	defer giveBack()
	s.session, err = ort.NewDynamicAdvancedSession(path, s.inputs, []string{output}, options)
	return err
}

// newOptions returns the options of a session that uses only the calling thread, and the memory that all sessions share. A memory plan for each
// length of texts (SetMemPattern) takes a third more, and is no faster.
func newOptions() (*ort.SessionOptions, error) {
	o, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	err = errors.Join(o.SetIntraOpNumThreads(1), o.SetInterOpNumThreads(1), o.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"),
		o.SetMemPattern(false), o.AddSessionConfigEntry("session.use_env_allocators", "1"))
	if err != nil {
		return nil, errors.Join(err, o.Destroy())
	}
	return o, nil
}

// Run runs the model on rows of tokens, which have one length and are concatenated in ids; mask is 1 for a token and 0 for padding. It returns the
// concatenated output rows.
func (s *Session) Run(rows int, ids, mask []int64) (out []float32, err error) {
	if rows < 1 || len(ids) == 0 || len(ids)%rows != 0 || len(mask) != len(ids) {
		return nil, fmt.Errorf("%d tokens and a mask of %d are no %d rows", len(ids), len(mask), rows)
	}
	shape := ort.NewShape(int64(rows), int64(len(ids)/rows))
	given := [][]int64{ids, mask, nil}
	if len(s.inputs) == len(given) {
		given[2] = make([]int64, len(ids)) // one segment
	}
	var in []ort.Value
	defer func() {
		for _, v := range in {
			err = errors.Join(err, v.Destroy())
		}
	}()
	for i := range s.inputs {
		v, err := ort.NewTensor(shape, given[i])
		if err != nil {
			return nil, err
		}
		in = append(in, v)
	}
	results := []ort.Value{nil}
	if err := s.session.Run(in, results); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, results[0].Destroy()) }()
	t, ok := results[0].(*ort.Tensor[float32])
	if !ok {
		return nil, errors.New("the model's output is of another type than float32")
	}
	return slices.Clone(t.GetData()), nil
}

// Close frees the model.
func (s *Session) Close() error { return s.session.Destroy() }
