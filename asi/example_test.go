package asi_test

import (
	"fmt"

	"github.com/quorate/quorate/asi"
)

// A namespace of a project and a bucket, and a name that contains a "|".
func ExampleJoin() {
	fmt.Println(asi.Join("infra", "ci"))
	fmt.Println(asi.Join("infra", "linux|x64", "ci"))
	// Output:
	// infra|ci
	// infra|{Ch[d0G^O`o1]|ci
}

func ExampleSplit() {
	for _, section := range asi.Split("infra|{@=2M|{not encoded") {
		fmt.Println(section)
	}
	// Output:
	// infra
	// a|b
	// {not encoded
}
