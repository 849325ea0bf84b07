sudo useradd --system --home-dir /var/lib/legwork-runner --shell /usr/sbin/nologin legwork
sudo install -D -m 0640 -g legwork {{.Name}}.env /etc/legwork/runner.env
echo '{}' | sudo install -D -m 0640 -g legwork /dev/stdin /etc/legwork/runner.json
sudo install -m 0644 deploy/systemd/legwork-runner.service /etc/systemd/system/
sudo systemctl daemon-reload
sudo systemctl enable --now legwork-runner
