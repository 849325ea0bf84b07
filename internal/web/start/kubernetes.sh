kubectl create namespace legwork --dry-run=client -o yaml | kubectl apply -f -
kubectl -n legwork create secret generic legwork-{{.Object}} --from-env-file={{.Name}}.env
kubectl -n legwork apply -f - <<'END'
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: legwork-{{.Object}}
spec:
  replicas: {{if .Multiple}}3{{else}}1{{end}}
  serviceName: legwork-{{.Object}}
  podManagementPolicy: Parallel
  selector:
    matchLabels: {app.kubernetes.io/instance: legwork-{{.Object}}}
  template:
    metadata:
      labels: {app.kubernetes.io/name: legwork, app.kubernetes.io/instance: legwork-{{.Object}}}
    spec:
      terminationGracePeriodSeconds: 3600
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: runner
          image: legwork:latest
          args: ["runner", "start"]
          envFrom:
            - secretRef: {name: legwork-{{.Object}}}
          env:
            - name: LEGWORK_RUNNER__INSTANCE
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: ["ALL"]}
          volumeMounts:
            - {name: work, mountPath: /var/lib/legwork}
            - {name: tmp, mountPath: /tmp}
      volumes:
        - {name: tmp, emptyDir: {}}
  volumeClaimTemplates:
    - metadata: {name: work}
      spec:
        accessModes: ["ReadWriteOnce"]
        resources: {requests: {storage: 20Gi}}
END
