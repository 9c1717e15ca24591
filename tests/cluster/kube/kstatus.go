package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kstatus reads objects as JSON from stdin, one after the other, and answers each with a line of
// JSON: the status that tools of GitOps compute from it, and why.
func kstatus() {
	objects := json.NewDecoder(os.Stdin)
	for objects.More() {
		var text json.RawMessage
		if err := objects.Decode(&text); err != nil {
			fail(err)
		}
		// Its own way to read JSON: whole numbers stay whole numbers.
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(text); err != nil {
			fail(err)
		}
		result, err := status.Compute(object)
		if err != nil {
			fail(err)
		}
		answer := map[string]string{"status": result.Status.String(), "message": result.Message}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kstatus:", err)
	os.Exit(1)
}
