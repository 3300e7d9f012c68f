package main

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The state of both models is a string: the value of the register, or those of the list with commas between them.
func model(step func(state string, one operation) (bool, string)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, _ any) (bool, any) {
			fits, next := step(state.(string), input.(operation))
			return fits, next
		},
	}
}

// One register: a read gives what was written last.
var register = model(func(state string, one operation) (bool, string) {
	if one.kind == writeRegister {
		return true, one.value
	}
	return one.value == state, state
})

// One list: a read gives all that was appended, in that order.
var appendList = model(func(state string, one operation) (bool, string) {
	switch {
	case one.kind == readList:
		return one.value == state, state
	case state == "":
		return true, one.value
	}
	return true, state + "," + one.value
})

// check looks for an order of the operations on each key, for so long. It gives a sentence for each key that has none or may have none.
func check(all []operation, limit time.Duration) []string {
	type object struct {
		list bool
		key  string
	}
	byObject := map[object][]operation{}
	for _, one := range all {
		which := object{one.kind == appendToList || one.kind == readList, one.key}
		byObject[which] = append(byObject[which], one)
	}
	var findings []string
	for which, operations := range byObject {
		name, rules := "register "+which.key, register
		if which.list {
			name, rules = "list "+which.key, appendList
		}
		if finding := checkObject(name, rules, operations, limit); finding != "" {
			findings = append(findings, finding)
		}
	}
	sort.Strings(findings)
	return findings
}

func checkObject(name string, rules porcupine.Model, operations []operation, limit time.Duration) string {
	if twice := writtenTwice(operations); twice != "" {
		return fmt.Sprintf("%s: the value %s was written twice, so nothing can be said", name, twice)
	}
	history := that(operations)
	result, info := porcupine.CheckOperationsVerbose(rules, history, limit)
	switch result {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return fmt.Sprintf("%s: no order of its %d operations was found within %v", name, len(history), limit)
	}
	return fmt.Sprintf("%s is not linearizable: no order of its %d operations; %s", name, len(history), firstLeft(history, info))
}

// that gives porcupine what may matter. A read without an answer says nothing, a write that failed has no effect.
//
// A write of unknown outcome ends when its effect is seen first: it came before that. Without anybody who saw it, it may have come after all
// others, so it is left out. Both change nothing in the answer, and porcupine has fewer orders to try.
func that(operations []operation) []porcupine.Operation {
	seen := seenBy(operations)
	var history []porcupine.Operation
	for _, one := range operations {
		last := one.end
		switch {
		case one.outcome == ok:
		case one.outcome == unknown && one.isWrite():
			at, found := seen[one.value]
			if !found {
				continue
			}
			last = max(at, one.begin)
		default:
			continue
		}
		history = append(history, porcupine.Operation{Input: one, Call: one.begin, Return: last})
	}
	return history
}

// The earliest end of a read that has the value.
func seenBy(operations []operation) map[string]int64 {
	seen := map[string]int64{}
	for _, one := range operations {
		if one.isWrite() || one.outcome != ok || one.value == "" {
			continue
		}
		for _, value := range strings.Split(one.value, ",") {
			if at, found := seen[value]; !found || one.end < at {
				seen[value] = one.end
			}
		}
	}
	return seen
}

func (o operation) isWrite() bool { return o.kind == writeRegister || o.kind == appendToList }

func writtenTwice(operations []operation) string {
	written := map[string]bool{}
	for _, one := range operations {
		if !one.isWrite() {
			continue
		}
		if written[one.value] {
			return one.value
		}
		written[one.value] = true
	}
	return ""
}

// The operation that ends first of those that the longest order leaves out.
func firstLeft(history []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, partition := range info.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	placed := map[int]bool{}
	for _, index := range longest {
		placed[index] = true
	}
	left, end := -1, int64(math.MaxInt64)
	for index, each := range history {
		if !placed[index] && each.Return < end {
			left, end = index, each.Return
		}
	}
	if left < 0 {
		return "no operation stands out"
	}
	one := history[left].Input.(operation)
	value := one.value
	if value == "" {
		value = nothing
	}
	// A list may be long; what is missing is found by the key.
	if len(value) > 120 {
		value = value[:120] + "..."
	}
	return fmt.Sprintf("the first that fits nowhere is %s's %s of %s, answered by %s at %d", one.client, one.kind, value, one.member, one.end)
}
