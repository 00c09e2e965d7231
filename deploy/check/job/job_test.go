// Package job tests the objects of Kubernetes that docs/howto/kubernetes.md prints.
package job

import (
	"os"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// TestBackupJob: the job of the handbook has only fields that Kubernetes has. It runs "quorate backup" in the
// directory of its claim, and its variables name files of its Secret.
func TestBackupJob(t *testing.T) {
	page, err := os.ReadFile("../../../docs/howto/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "\n```yaml kubernetes\n")
	block, _, ok := strings.Cut(block, "\n```")
	if !ok {
		t.Fatal("docs/howto/kubernetes.md has no job")
	}
	var job batchv1.CronJob
	if err := yaml.UnmarshalStrict([]byte(block), &job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	c := pod.Containers[0]
	if !slices.Equal(c.Args, []string{"backup"}) || c.WorkingDir != c.VolumeMounts[0].MountPath || pod.Volumes[0].PersistentVolumeClaim == nil {
		t.Errorf("%v in %s, want backup in the directory of the claim", c.Args, c.WorkingDir)
	}
	for i, m := range c.VolumeMounts {
		if pod.Volumes[i].Name != m.Name {
			t.Errorf("the mount %s has the volume %s", m.Name, pod.Volumes[i].Name)
		}
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	access := c.VolumeMounts[1].MountPath
	if env["QUORATE_TLS_DIR"] != access || env["QUORATE_TOKEN_FILE"] != access+"/token" || env["QUORATE_ADDR"] != "quorate-nodes:7412" || len(env) != 3 {
		t.Errorf("the variables are %v", env)
	}
}
