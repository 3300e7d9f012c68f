// A webhook that decides who is seeded: the rule of policies/sequence, as a Metacontroller user would write it with the standard library.
//
//	POST /pods    a sync request with whole pods; only what the rule needs is decoded into Go values
//	POST /lean    the members as the policy gets them: name, ordinal, term, number
//
// It prints its address and ends when its standard input does.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
)

type member struct {
	Name    string `json:"name"`
	Ordinal int    `json:"ordinal"`
	Term    uint64 `json:"term"`
	Number  uint64 `json:"number"`
}

type verdict struct {
	Member string `json:"member"`
	Reason string `json:"reason"`
}

type answer struct {
	Candidates []verdict `json:"candidates"`
	PassedOver []verdict `json:"passedOver"`
}

func has(m member) string { return fmt.Sprintf("data %d of term %d", m.Number, m.Term) }

func same(a, b member) bool { return a.Term == b.Term && a.Number == b.Number }

// Highest data first, then lowest ordinal; those with less are passed over.
func seed(members []member) answer {
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(b.Term, a.Term), cmp.Compare(b.Number, a.Number), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	first := members[0]
	equal := 0
	for _, m := range members {
		if same(m, first) {
			equal++
		}
	}
	var said answer
	for i, m := range members {
		switch {
		case i == 0 && equal == 1:
			said.Candidates = append(said.Candidates, verdict{m.Name, has(m) + ", more recent than all others"})
		case i == 0:
			said.Candidates = append(said.Candidates, verdict{m.Name, has(m) + ", as others have; first by ordinal"})
		case i < equal:
			said.Candidates = append(said.Candidates, verdict{m.Name, has(m) + ", as " + first.Name + " has, which goes first"})
		case m.Term < first.Term:
			why := fmt.Sprintf("%s is of an older term than %s of %s", has(m), has(first), first.Name)
			said.PassedOver = append(said.PassedOver, verdict{m.Name, why})
		default:
			why := fmt.Sprintf("%d is behind %d of %s", m.Number, first.Number, first.Name)
			said.PassedOver = append(said.PassedOver, verdict{m.Name, why})
		}
	}
	return said
}

type request struct {
	Related struct {
		Pods map[string]struct {
			Metadata struct {
				Name        string            `json:"name"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"Pod.v1"`
	} `json:"related"`
}

func ofPods(body io.Reader) ([]member, error) {
	var asked request
	if err := json.NewDecoder(body).Decode(&asked); err != nil {
		return nil, err
	}
	var members []member
	for _, pod := range asked.Related.Pods {
		name, notes := pod.Metadata.Name, pod.Metadata.Annotations
		ordinal, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
		if err != nil {
			return nil, err
		}
		term, err := strconv.ParseUint(notes["tanist.dev/term"], 10, 64)
		if err != nil {
			return nil, err
		}
		number, err := strconv.ParseUint(notes["tanist.dev/sequence"], 10, 64)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, ordinal, term, number})
	}
	return members, nil
}

func lean(body io.Reader) (members []member, err error) {
	err = json.NewDecoder(body).Decode(&members)
	return members, err
}

func answered(read func(io.Reader) ([]member, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		members, err := read(r.Body)
		if err == nil && len(members) == 0 {
			err = fmt.Errorf("no members")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		said, err := json.Marshal(seed(members))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(said)))
		w.Write(said)
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("POST /pods", answered(ofPods))
	http.Handle("POST /lean", answered(lean))
	fmt.Println(listener.Addr())
	go func() { log.Fatal(http.Serve(listener, nil)) }()
	io.Copy(io.Discard, os.Stdin)
}
