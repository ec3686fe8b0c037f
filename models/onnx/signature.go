package onnx

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of an ONNX file that name a model's inputs and outputs: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
const (
	modelGraph  = 7  // ModelProto.graph
	graphInput  = 11 // GraphProto.input
	graphOutput = 12 // GraphProto.output
	valueName   = 1  // ValueInfoProto.name
)

// maxValueInfo limits the description of one input or output, in bytes.
const maxValueInfo = 1 << 16

// errNoModel is the error of a file that is no ONNX model.
var errNoModel = errors.New("it is no ONNX model")

// signature reads the names of a model's inputs and outputs from its file, without its weights. Getting them from a session would need a second one.
func signature(path string) (inputs, outputs []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := &fields{in: bufio.NewReader(f)}
	for {
		number, size, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil, errNoModel
		case err != nil:
			return nil, nil, err
		case number == modelGraph:
			return graph(io.LimitReader(r.in, size))
		}
		if err := r.skip(size); err != nil {
			return nil, nil, err
		}
	}
}

// graph reads the names of a GraphProto.
func graph(in io.Reader) (inputs, outputs []string, err error) {
	r := &fields{in: bufio.NewReader(in)}
	for {
		number, size, err := r.next()
		if errors.Is(err, io.EOF) {
			return inputs, outputs, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if number != graphInput && number != graphOutput {
			if err := r.skip(size); err != nil {
				return nil, nil, err
			}
			continue
		}
		name, err := r.name(size)
		if err != nil {
			return nil, nil, err
		}
		if number == graphInput {
			inputs = append(inputs, name)
		} else {
			outputs = append(outputs, name)
		}
	}
}

// fields reads the fields of a Protocol Buffers message as a stream.
type fields struct{ in *bufio.Reader }

// next returns the number of the next field, and the size of its value. At the end of the message the error is io.EOF.
func (f *fields) next() (number protowire.Number, size int64, err error) {
	if _, err := f.in.Peek(1); err != nil {
		return 0, 0, err
	}
	tag, err := binary.ReadUvarint(f.in)
	if err != nil {
		return 0, 0, errNoModel
	}
	number, kind := protowire.DecodeTag(tag)
	switch kind {
	case protowire.VarintType:
		_, err = binary.ReadUvarint(f.in)
	case protowire.Fixed32Type:
		size = 4
	case protowire.Fixed64Type:
		size = 8
	case protowire.BytesType:
		var n uint64
		n, err = binary.ReadUvarint(f.in)
		size = int64(n) //nolint:gosec // what is beyond is negative, and refused
	default: // groups, which the format does not use
		err = errNoModel
	}
	if err != nil || number < 1 || size < 0 {
		return 0, 0, errNoModel
	}
	return number, size, nil
}

func (f *fields) skip(size int64) error {
	if _, err := io.CopyN(io.Discard, f.in, size); err != nil {
		return fmt.Errorf("%w: it ends early", errNoModel)
	}
	return nil
}

// name returns the name in a ValueInfoProto of a size.
func (f *fields) name(size int64) (string, error) {
	if size > maxValueInfo {
		return "", errNoModel
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f.in, b); err != nil {
		return "", fmt.Errorf("%w: it ends early", errNoModel)
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		if number == valueName && kind == protowire.BytesType {
			if name, m := protowire.ConsumeString(b[n:]); m >= 0 {
				return name, nil
			}
			break
		}
		m := protowire.ConsumeFieldValue(number, kind, b[n:])
		if m < 0 {
			break
		}
		b = b[n+m:]
	}
	return "", errNoModel
}
